package main

import "strings"

// What the help of a command says last, in the form that the manual page reads
// it in.
const (
	exitHeading    = "Exit status: "
	exampleHeading = "Examples:"
)

// usage is the Help of a command: its exit statuses and at least one example.
func usage(exits string, examples ...string) string {
	return exitHeading + exits + " A wrong command line exits 80.\n\n" +
		exampleHeading + "\n\n    " + strings.Join(examples, "\n    ")
}

// usageOf takes the help of a command apart again.
func usageOf(help string) (exits string, examples []string) {
	exits, list, found := strings.Cut(strings.TrimPrefix(help, exitHeading), "\n\n"+exampleHeading+"\n\n")
	if !found {
		return "", nil
	}
	for line := range strings.SplitSeq(list, "\n") {
		examples = append(examples, strings.TrimSpace(line))
	}
	return exits, examples
}
