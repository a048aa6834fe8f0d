package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// inLanguage are the blocks of all documents in one language.
func inLanguage(t *testing.T, lang string) (list []*block) {
	t.Helper()
	for file, text := range documents(t) {
		all, err := blocks(file, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			if b.lang == lang && b.skip == "" {
				list = append(list, b)
			}
		}
	}
	return list
}

func (b *block) text() string { return strings.Join(b.code, "\n") + "\n" }

// Each Go block is a file of a program or package of its own, which go vet
// takes as it stands, in a module that uses this one.
func TestGoBlocks(t *testing.T) {
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const self = "github.com/jobprobe/jobprobe"
	text := strings.Replace(string(mod), "module "+self, "module example.com/shown", 1)
	text += fmt.Sprintf("\nrequire %s v0.0.0\nreplace %s => %s\n", self, self, root)
	write(t, filepath.Join(dir, "go.mod"), text)
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.sum"), string(sum))
	list := inLanguage(t, "go")
	for i, b := range list {
		// The compiler names the document's line.
		write(t, filepath.Join(dir, fmt.Sprintf("b%d", i), "shown.go"), fmt.Sprintf("//line %s:%d\n%s", b.file, b.line, b.text()))
	}
	vet := exec.Command("go", "vet", "-mod=mod", "./...")
	vet.Dir = dir
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("count: %d blocks of Go", len(list))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each Python block is a program that succeeds.
func TestPythonBlocks(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	list := inLanguage(t, "python")
	for _, b := range list {
		cmd := newHome(t).command("python3", "-")
		cmd.Stdin = strings.NewReader(b.text())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", b.at(), err, out)
		}
	}
	t.Logf("count: %d blocks of Python", len(list))
}

// Each TOML block is a configuration that the binary takes.
func TestConfigurationBlocks(t *testing.T) {
	list := inLanguage(t, "toml")
	for _, b := range list {
		h := newHome(t)
		write(t, filepath.Join(string(h), "c.toml"), b.text())
		if out, err := h.command("jobprobe", "--config", "c.toml", "list").CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", b.at(), err, out)
		}
	}
	t.Logf("count: %d configurations", len(list))
}
