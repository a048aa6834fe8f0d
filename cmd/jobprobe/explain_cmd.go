package main

import (
	"cmp"
	"fmt"
	"slices"
)

type explainCmd struct {
	Code string `arg:"" optional:"" help:"A word of an answer or a record, such as pid_recycled. Without one, all are listed."`
}

func (*explainCmd) Help() string {
	return usage("0; 1 no such word.",
		"jobprobe explain process_gone_without_outcome")
}

func (cmd *explainCmd) Run(c *console) error {
	found := codes
	if cmd.Code != "" {
		found = slices.DeleteFunc(slices.Clone(codes), func(e code) bool { return e.Name != cmd.Code })
	}
	if len(found) == 0 {
		return &failure{exitRefused, fmt.Errorf("nothing is named %q; \"jobprobe explain\" lists all codes", cmd.Code)}
	}
	if c.json {
		return c.document(struct {
			Codes []code `json:"codes"`
		}{found})
	}
	if cmd.Code == "" {
		rows := [][]string{{"CODE", "KIND", "MEANING"}}
		for _, e := range slices.SortedStableFunc(slices.Values(found), func(a, b code) int { return cmp.Compare(a.Name, b.Name) }) {
			rows = append(rows, []string{e.Name, e.Kind, e.Meaning})
		}
		return c.table(rows)
	}
	for _, e := range found {
		if err := c.facts("code", e.Name, "kind", e.Kind, "meaning", e.Meaning, "next", e.Next); err != nil {
			return err
		}
	}
	return nil
}
