package apply

import (
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"homelab/lab"
)

// fault returns the error of a step that panicked with v or, if nil, whose goroutine exited. It must be called while
// panicking, for the stack.
func fault(s lab.Step, v any) error {
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "fault", Message: "step " + s.Title() + " failed by a bug in lab",
		Cure: "run it again; if it fails again, report it with the output of lab diagnose",
	}
	if v != nil {
		e.Message += fmt.Sprintf(": %v", v)
		e.Details = where()
	}
	return e
}

// depth is the number of reported stack frames.
const depth = 8

// where returns the stack of a panic, innermost frame first.
func where() []string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var list []string
	for panicked := false; len(list) < depth; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime {
			line := fmt.Sprintf("%s:%d %s", filepath.Base(f.File), f.Line, path.Base(f.Function))
			list = append(list, line[:min(len(line), 78)])
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			break
		}
	}
	return list
}
