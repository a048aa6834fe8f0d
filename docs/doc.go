// Package docs holds the documents of the project and the JSON Schemas of what
// the command line prints (docs/schema). Its tests, on Linux, run every command
// that README.md and the documents show, compare what is shown with what is
// printed, compile and run the programs in them, and validate a document of
// each kind:
//
//	go test ./docs
//
// After a change of what a command prints, the outputs shown are brought in step
// by one run with JOBPROBE_UPDATE_DOCS=1, to be read in the diff.
package docs
