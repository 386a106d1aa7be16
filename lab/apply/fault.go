package apply

import (
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"homelab/lab"
)

// fault is the error of a step that panicked with v, or whose goroutine was ended, where v is nil. It is called while that happens, to say where.
func fault(s lab.Step, v any) error {
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "fault", Message: "step " + s.Title() + " ended by a fault in lab itself",
		Cure: "run it again; where it fails again, report it with what lab diagnose writes",
	}
	if v != nil {
		e.Message += fmt.Sprintf(": %v", v)
		e.Details = where()
	}
	return e
}

// depth is how many callers say where a fault is.
const depth = 8

// where names the functions that led to a panic, the innermost first.
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
