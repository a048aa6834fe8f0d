package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version overrides the version that the build recorded.
var Version string

type versionCmd struct{}

func (*versionCmd) Help() string {
	return usage("0.",
		"jobprobe version --json")
}

func (*versionCmd) Run(c *console) error {
	b := readBuild()
	if c.json {
		return c.document(b)
	}
	_, err := fmt.Fprintf(c.out, "jobprobe %s %s %s\n%s", b.Version, b.Go, b.Platform, b.source())
	return err
}

// build is what this program was built from. Commit and Dirty are null where
// the build did not see the repository.
type build struct {
	Version  string  `json:"version"`
	Go       string  `json:"go"`
	Platform string  `json:"platform"`
	Commit   *string `json:"commit"`
	Dirty    *bool   `json:"dirty"`
}

func readBuild() build {
	b := build{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = &s.Value
			case "vcs.modified":
				b.Dirty = new(s.Value == "true")
			}
		}
	}
	b.Version = cmp.Or(b.Version, "devel")
	return b
}

// source is a line that names the commit, where it is known.
func (b build) source() string {
	switch {
	case b.Commit == nil:
		return ""
	case b.Dirty != nil && *b.Dirty:
		return "commit " + *b.Commit + ", dirty: with changes that are not committed\n"
	}
	return "commit " + *b.Commit + ", clean\n"
}

func version() string { return readBuild().Version }
