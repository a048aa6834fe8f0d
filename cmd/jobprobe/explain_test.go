package main

import (
	"encoding"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jobprobe/jobprobe"
	"github.com/jobprobe/jobprobe/reap"
	"github.com/jobprobe/jobprobe/sidecar"
	"github.com/jobprobe/jobprobe/spawn"
)

// words lists an enumeration from its zero value on.
func words[T encoding.TextMarshaler](value func(n int) T) (list []string) {
	for n := 0; ; n++ {
		text, err := value(n).MarshalText()
		if err != nil {
			return list
		}
		list = append(list, string(text))
	}
}

// constants lists the string constants of a package's files whose names match.
func constants(t *testing.T, dir string, name *regexp.Regexp) (list []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !name.MatchString(spec.Names[0].Name) {
				return true
			}
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, text)
			return true
		})
	}
	return list
}

// Every word that the packages have for these kinds is explained, and no other.
func TestExplain(t *testing.T) {
	want := map[string][]string{
		aConclusion: words(func(n int) jobprobe.Conclusion { return jobprobe.Conclusion(n) }),
		aFinding:    words(func(n int) jobprobe.Finding { return jobprobe.Finding(n) }),
		aRefusal:    words(func(n int) sidecar.Refusal { return sidecar.Refusal(n) }),
		aClaimState: words(func(n int) spawn.ClaimState { return spawn.ClaimState(n) }),
		aState:      words(func(n int) sidecar.Phase { return sidecar.Phase(n) }),
		aCleanup:    words(func(n int) sidecar.Cleanup { return sidecar.Cleanup(n) }),
		anOwnership: words(func(n int) sidecar.Ownership { return sidecar.Ownership(n) }),
		aCause:      words(func(n int) sidecar.Cause { return sidecar.Cause(n) }),
		aResult:     words(func(n int) sidecar.Result { return sidecar.Result(n) }),
		aDrain:      words(func(n int) reap.DrainOutcome { return reap.DrainOutcome(n) }),
		aKept:       constants(t, "../../reap", regexp.MustCompile(`^kept[A-Z]`)),
		aWarning:    constants(t, "../../reap", regexp.MustCompile(`^Warn[A-Z]`)),
		aSource:     constants(t, "../../sidecar", regexp.MustCompile(`^Source[A-Z]`)),
		aKillCode:   constants(t, "../../reap", regexp.MustCompile(`^(k|K)ill[A-Z]`)),
		aNoticeCode: constants(t, "../../reap", regexp.MustCompile(`^fault[A-Z]`)),
		aReason:     constants(t, "../../reap", regexp.MustCompile(`^(r|R)eason[A-Z]`)),
	}
	explained := map[string]map[string]bool{}
	for _, e := range codes {
		if explained[e.Kind] == nil {
			explained[e.Kind] = map[string]bool{}
		}
		if explained[e.Kind][e.Name] {
			t.Errorf("%s %s is explained twice", e.Kind, e.Name)
		}
		explained[e.Kind][e.Name] = true
		if !strings.HasSuffix(e.Meaning, ".") {
			t.Errorf("%s %s: %q is no sentence", e.Kind, e.Name, e.Meaning)
		}
	}
	for kind, list := range want {
		if len(list) < 2 {
			t.Errorf("%s: only %q found", kind, list)
		}
		for _, word := range list {
			if !explained[kind][word] {
				t.Errorf("%s %s is not explained", kind, word)
			}
			delete(explained[kind], word)
		}
		if kind == aReason { // some are of other packages
			continue
		}
		for word := range explained[kind] {
			t.Errorf("%s %s is explained and does not exist", kind, word)
		}
	}
}
