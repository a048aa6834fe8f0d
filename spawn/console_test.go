package spawn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/jobprobe/jobprobe/internal/testproc"
)

// closer counts.
type closer int

func (c *closer) Close() error { *c++; return nil }

// kept writes to a bounded log and returns what is in it.
func kept(t *testing.T, most int64, in io.Reader, token string) (log []byte, told int) {
	t.Helper()
	path := filepath.Join(testproc.TempDir(t), "console.log")
	l, err := openLog(path, most)
	if err != nil {
		t.Fatal(err)
	}
	var done closer
	l.copy(in, []byte(token), &done)
	l.file.Close()
	if log, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left a temporary file: %v", err)
	}
	return log, int(done)
}

// Whatever is printed, in whatever pieces: the log is bounded, its head and its
// tail are the output's, and it says exactly how much is lacking in between.
func TestBoundedLog(t *testing.T) {
	const most = MinLog
	cuts := 0
	rapid.Check(t, func(rt *rapid.T) {
		var printed []byte
		for _, n := range rapid.SliceOfN(rapid.Uint16Range(0, 3000), 0, 30).Draw(rt, "lines") {
			for i := range int(n) * 7 % 3000 { // rapid favours small numbers
				printed = append(printed, byte('a'+(i+len(printed))%26))
			}
			printed = append(printed, '\n')
		}
		in := io.Reader(bytes.NewReader(printed))
		if rapid.Bool().Draw(rt, "halves") {
			in = iotest.HalfReader(in)
		}
		log, _ := kept(t, most, in, "")
		gap := FindGap(bytes.NewReader(log), most)
		if int64(len(log)) > most {
			rt.Fatalf("%d bytes", len(log))
		}
		if len(printed) <= most && gap != (Gap{}) {
			rt.Fatalf("%d bytes were printed, %+v", len(printed), gap)
		}
		if gap.Dropped > 0 {
			cuts++
		}
		head, tail := printed[:gap.Head], printed[gap.Head+gap.Dropped:]
		mark := ""
		if gap.Dropped > 0 {
			mark = fmt.Sprintf(dropMark, gap.Dropped)
			if len(tail) < most/8 && !bytes.Contains(printed[len(printed)-most/4:], []byte("\n")) {
				rt.Fatalf("a tail of %d bytes", len(tail))
			}
		}
		if want := string(head) + mark + string(tail); string(log) != want {
			rt.Fatalf("got %q, want %q", log, want)
		}
	})
	if cuts == 0 {
		t.Error("nothing was ever dropped")
	}
}

// The token is told of and left out, however it is cut up, and only once.
func TestToken(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"aTOKENb", "ab"}, {"TOKEN", ""}, {"aTOKTOKENb", "aTOKb"}, {"aTOKE", "aTOKE"},
		{"", ""}, {"aTOKENbTOKEN", "abTOKEN"}, {"TTTTOKEN", "TTT"},
	} {
		for _, r := range []io.Reader{
			bytes.NewReader([]byte(c.in)), iotest.OneByteReader(bytes.NewReader([]byte(c.in))),
			iotest.DataErrReader(bytes.NewReader([]byte(c.in))),
		} {
			log, told := kept(t, MinLog, r, "TOKEN")
			if want := min(1, len(c.in)-len(c.want)); string(log) != c.want || (told == 1) != (want > 0) {
				t.Errorf("%q became %q, told %d times", c.in, log, told)
			}
		}
	}
}

// What cannot be written is told of as soon as anything can.
func TestBoundedLogCannotWrite(t *testing.T) {
	path := filepath.Join(testproc.TempDir(t), "console.log")
	l, err := openLog(path, MinLog)
	if err != nil {
		t.Fatal(err)
	}
	l.write([]byte("one\n"))
	whole := l.file
	if l.file, err = os.Open(path); err != nil { // cannot be written to
		t.Fatal(err)
	}
	l.write([]byte("two\n"))
	l.write([]byte("three\n"))
	l.file.Close()
	l.file = whole
	l.write([]byte("four\n"))
	l.file.Close()
	data, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(data, []byte("one\n\n[jobprobe: 10 bytes could not be written: ")) || !bytes.HasSuffix(data, []byte("]\nfour\n")) {
		t.Errorf("%q, %v", data, err)
	}
}

// A log that only looks as if something were lacking is whole.
func TestFindGap(t *testing.T) {
	head := string(bytes.Repeat([]byte("x"), MinLog/2))
	for text, want := range map[string]Gap{
		"":                                     {},
		head:                                   {},
		head + fmt.Sprintf(dropMark, 7):        {MinLog / 2, markSize, 7},
		head + fmt.Sprintf(dropMark, 7) + "y":  {MinLog / 2, markSize, 7},
		head + fmt.Sprintf(dropMark, -7):       {},
		head + "\n[jobprobe: 7 bytes dropped]": {},
	} {
		if got := FindGap(bytes.NewReader([]byte(text)), MinLog); got != want {
			t.Errorf("%.60q: %+v, want %+v", text[min(len(text), len(head)):], got, want)
		}
		if got := FindGap(bytes.NewReader([]byte(text)), 0); got != (Gap{}) {
			t.Errorf("unbounded: %+v", got)
		}
	}
}
