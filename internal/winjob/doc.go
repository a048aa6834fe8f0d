// Package winjob keeps the processes of a run together on Windows: in a job
// object that has the run's name, so that another process can end them all. A
// process of the run leaves it only if it is started to break away.
package winjob
