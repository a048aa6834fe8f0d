package main

import (
	"embed"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"One of ${enum}."`
}

func (*completionCmd) Help() string {
	return usage("0.",
		"source <(jobprobe completion bash)",
		"jobprobe completion fish >~/.config/fish/completions/jobprobe.fish")
}

// The scripts know nothing of the commands: they ask "jobprobe complete".
//
//go:embed completion
var scripts embed.FS

func (cmd *completionCmd) Run(c *console) error {
	ending := cmd.Shell
	if ending == "powershell" {
		ending = "ps1"
	}
	text, err := scripts.ReadFile("completion/jobprobe." + ending)
	if err != nil {
		return err
	}
	if c.json {
		return c.document(struct {
			Shell  string `json:"shell"`
			Script string `json:"script"`
		}{cmd.Shell, string(text)})
	}
	_, err = c.out.Write(text)
	return err
}
