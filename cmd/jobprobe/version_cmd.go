package main

import (
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
	if c.json {
		return c.document(struct {
			Version  string `json:"version"`
			Go       string `json:"go"`
			Platform string `json:"platform"`
		}{version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
	}
	_, err := fmt.Fprintf(c.out, "jobprobe %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// version is Version, or what the build recorded of the repository.
func version() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
