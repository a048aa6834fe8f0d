// Archive packs a directory, below its own name, into a .tar.gz or a .zip that
// depends on nothing but the names of the files, what they hold and whether
// they are executable: they are sorted, root's, and all of one time.
//
//	archive -epoch SECONDS OUT.tar.gz|OUT.zip DIR
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	epoch := flag.Int64("epoch", 0, "time of every file, in seconds since 1970")
	flag.Parse()
	if err := pack(flag.Arg(0), flag.Arg(1), time.Unix(*epoch, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "archive:", err)
		os.Exit(1)
	}
}

// adder takes the files of an archive one by one.
type adder func(name string, executable bool, data []byte) error

func pack(out, dir string, at time.Time) (err error) {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	closers := []func() error{f.Close} // the last first
	defer func() {
		for i := len(closers) - 1; i >= 0; i-- {
			if closed := closers[i](); err == nil {
				err = closed
			}
		}
	}()
	if strings.HasSuffix(out, ".zip") {
		z := zip.NewWriter(f)
		closers = append(closers, z.Close)
		return walk(dir, zipped(z, at))
	}
	g, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(g)
	closers = append(closers, g.Close, t.Close)
	return walk(dir, tarred(t, at))
}

// walk adds the files of a directory in the order of their names.
func walk(dir string, add adder) error {
	root := os.DirFS(dir)
	return fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return add(path.Join(filepath.Base(dir), name), info.Mode()&0o100 != 0, data)
	})
}

func mode(executable bool) fs.FileMode {
	if executable {
		return 0o755
	}
	return 0o644
}

func tarred(t *tar.Writer, at time.Time) adder {
	return func(name string, executable bool, data []byte) error {
		head := tar.Header{
			Name: name, Mode: int64(mode(executable)), Size: int64(len(data)),
			ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatUSTAR,
		}
		if err := t.WriteHeader(&head); err != nil {
			return err
		}
		_, err := t.Write(data)
		return err
	}
}

func zipped(z *zip.Writer, at time.Time) adder {
	return func(name string, executable bool, data []byte) error {
		head := zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at}
		head.SetMode(mode(executable))
		w, err := z.CreateHeader(&head)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
}
