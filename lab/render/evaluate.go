package render

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/google/go-jsonnet"

	"homelab/lab"
	"homelab/lab/finding"
)

const (
	maxTokens   = 100_000 // that nest in one another in a Jsonnet file
	watched     = 20 * time.Millisecond
	lastResort  = 5 * time.Minute // comparing values that share parts has neither steps nor bytes
	jsonnetStep = 3               // a step of the evaluator in steps
	maxExtent   = 4 << 20         // characters of a text, elements of a list
	maxStack    = 600             // the evaluator's own limit, 500, and those of the walk
)

// maxAllocs is how many bytes an evaluation may allocate, garbage included.
var maxAllocs uint64 = 4 << 30

// evaluate evaluates a program within a budget. The evaluator has no limit but that of its stack, and cannot be stopped: each of its steps calls a hook, which panics
// when the budget is spent. What it does without steps is bounded by what the program allocates; then evaluate returns, and the rest of lab with it.
//
// A process of lab's own with RLIMIT_AS and RLIMIT_CPU would be a harder bound, but not this one: a limit in processor seconds is a clock, so that two machines would
// say different things; a Go program reserves more address space than it uses, so RLIMIT_AS cannot be near what an evaluation needs; neither exists on Windows and
// macOS; and the files of a repository that is not on disk would have to be passed to it, by every program that renders, tests included.
func evaluate(vm *jsonnet.VM, program string, b *Budget) (string, error) {
	vm.MaxStack = maxStack
	vm.SetTraceOut(io.Discard)
	var exceeded error
	stop := func(err error) {
		if err != nil {
			exceeded = err
			panic(err)
		}
	}
	hook, err := onStep(vm, func() { stop(b.step(jsonnetStep)) }, func(v reflect.Value) {
		if extent(v) > maxExtent {
			stop(over("a text or list of more than %d Mi elements", maxExtent>>20))
		}
	})
	if err != nil {
		return "", err
	}
	vm.EvalHook = hook
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	before := allocated()
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("jsonnet: %v", p)
			}
			done <- r
		}()
		r.text, r.err = vm.EvaluateAnonymousSnippet("", program)
	}()
	ticker := time.NewTicker(watched)
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case r := <-done:
			if exceeded != nil { // the evaluator reports panics as text
				return "", exceeded
			}
			return r.text, r.err
		case <-ticker.C:
			if allocated()-before > maxAllocs {
				return "", over("needs more than %d GiB to evaluate: does it grow without end?", maxAllocs>>30)
			}
			if time.Since(began) > lastResort {
				return "", over("is not evaluated within %s", lastResort)
			}
		}
	}
}

// allocated returns how many bytes the program has allocated since it started.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// onStep returns the evaluator's hooks with functions before each step and for its result. The hooks are public, but their parameters are not: only its debugger uses
// them so far.
func onStep(vm *jsonnet.VM, before func(), after func(v reflect.Value)) (jsonnet.EvalHook, error) {
	hook := vm.EvalHook
	for name, call := range map[string]func([]reflect.Value){
		"pre": func([]reflect.Value) { before() }, "post": func(in []reflect.Value) { after(in[len(in)-2]) },
	} {
		field := reflect.ValueOf(&hook).Elem().FieldByName(name)
		if !field.IsValid() || field.Kind() != reflect.Func || field.Type().NumOut() != 0 || name == "post" && field.Type().NumIn() != 4 {
			return hook, errors.New("jsonnet: this version of the evaluator cannot be bounded")
		}
		f := reflect.MakeFunc(field.Type(), func(in []reflect.Value) []reflect.Value { call(in); return nil })
		reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(f)
	}
	return hook, nil
}

// extent returns the length of a text or list of the evaluator, whose texts may be made of others and not be written out yet.
func extent(v reflect.Value) int {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return 0
	}
	for _, field := range []string{"len", "value", "elements"} {
		switch f := v.Elem().FieldByName(field); {
		case f.IsValid() && f.Kind() == reflect.Int:
			return int(f.Int())
		case f.IsValid() && f.Kind() == reflect.Slice:
			return f.Len()
		}
	}
	return 0
}

// shallow bounds the nesting of a Jsonnet file, as the parser and the evaluator are recursive: every bracket, operator and word may nest, and a comma ends what nests
// in its brackets.
func shallow(data []byte) error {
	depth, open := 0, []int{0}
	for _, c := range data {
		top := &open[len(open)-1]
		switch c {
		case '(', '[', '{':
			depth++
			open = append(open, 1)
		case ')', ']', '}':
			if len(open) > 1 {
				depth -= *top
				open = open[:len(open)-1]
			}
		case ',':
			depth -= *top
			*top = 0
		case ' ', '\n', '\t', '\r', '+', '-', '*', '/', '%', '&', '|', '^', '!', '~', '<', '>', '=', ';', '$':
			depth++
			*top++
		}
		if depth > maxTokens {
			return over("more than %d nested tokens", maxTokens)
		}
	}
	return nil
}

// bounded precedes every program. It limits the functions of std whose result's size is an argument; others return a multiple of their input.
const bounded = "local unboundedStd = std; local std = unboundedStd + {local no = error 'more than 1000000 elements', local most = 1000000, " +
	"makeArray(sz, func):: if sz > most then no else unboundedStd.makeArray(sz, func), " +
	"range(from, to):: if to - from > most then no else unboundedStd.range(from, to), " +
	"repeat(what, count):: if std.length(what) * count > most then no else unboundedStd.repeat(what, count)}; "

// walked returns a program that evaluates a file as the evaluator does, and first walks through its result: writing it out would visit shared parts, any number of
// times, without steps.
func walked(file string, arguments []string) string {
	var given []string
	for _, name := range arguments {
		given = append(given, name+"="+name)
	}
	return bounded + "local walk(v) = if std.isArray(v) then std.foldl(function(n, x) n + walk(x), v, 1) else if std.isObject(v) then " +
		"std.foldl(function(n, k) n + walk(v[k]), std.objectFields(v), 1) else 1; " +
		"function(" + strings.Join(arguments, ", ") + ") local v = import '" + strings.ReplaceAll(strings.ReplaceAll(file, `\`, `\\`), "'", `\'`) + "'; " +
		"local made = if std.isFunction(v) then v(" + strings.Join(given, ", ") + ") else v; if walk(made) > 0 then made"
}

// tracePlace matches the first position in a trace of the evaluator.
var tracePlace = regexp.MustCompile(`\n\t([^\s:<]*[./][^\s:<]*):\(?(\d+)`)

// jsonnetError is an error of the evaluator with its position, without the trace.
func jsonnetError(file string, err error) error {
	var l *limit
	if errors.As(err, &l) {
		return failed(file, err)
	}
	message, _, _ := strings.Cut(err.Error(), "\n")
	e := &Error{Problem: lab.Problem{Code: finding.CannotRender, Position: lab.Position{File: file}, Message: oneLine(strings.TrimPrefix(message, "RUNTIME ERROR: "))}}
	if m := tracePlace.FindStringSubmatch(err.Error()); m != nil {
		e.File = m[1]
		e.Line, _ = strconv.Atoi(m[2])
	}
	return e
}
