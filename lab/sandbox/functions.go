package sandbox

import (
	"fmt"
	"reflect"
	"strings"
	"text/template"
)

// MaxValue limits the bytes and values of a function's result.
const MaxValue = 4 << 20

// maxTotal limits the total of all results, garbage included.
const maxTotal = 2 << 30

// builtin are functions of text/template that make something of their arguments.
var builtin = template.FuncMap{
	"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln, "html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
}

// bounded limits a function's result to MaxValue, before it is computed if possible.
func (s *Sandbox) bounded(name string, f any) any {
	fn := reflect.ValueOf(f)
	t := fn.Type()
	if t.NumOut() == 0 {
		return f
	}
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	fails := reflect.TypeFor[error]()
	wrapped := reflect.FuncOf(in, []reflect.Type{t.Out(0), fails}, t.IsVariadic())
	return reflect.MakeFunc(wrapped, func(args []reflect.Value) []reflect.Value {
		failed := func(err error) []reflect.Value {
			return []reflect.Value{reflect.Zero(t.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		cost, err := s.cost(name, args)
		if err == nil {
			err = s.Step(cost)
		}
		if err == nil && estimate(name, args) > MaxValue {
			err = ErrHuge
		}
		if err != nil {
			return failed(err)
		}
		var out []reflect.Value
		if t.IsVariadic() {
			out = fn.CallSlice(args)
		} else {
			out = fn.Call(args)
		}
		left := MaxValue
		whole := fits(out[0], &left, 0)
		if s.made += MaxValue - left; !whole || s.made > maxTotal {
			return failed(ErrHuge)
		}
		s.Longest = max(s.Longest, width(out[0]))
		if err := s.Step((MaxValue - left) / perStep); err != nil {
			return failed(err)
		}
		if len(out) == 1 {
			out = append(out, reflect.Zero(fails))
		}
		return out
	}).Interface()
}

// estimate predicts the size of amplifying functions' results; 0 for others. An overflow counts as too much.
func estimate(name string, args []reflect.Value) int {
	product := func(a, b int) int {
		if a > 0 && b > MaxValue/a {
			return MaxValue + 1
		}
		return a * b
	}
	switch name {
	case "repeat", "indent", "nindent": // a count and a text
		s := text(args[1])
		if name != "repeat" {
			return product(number(args[0]), strings.Count(s, "\n")+1)
		}
		return product(number(args[0]), len(s))
	case "until", "randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes":
		return number(args[0])
	case "untilStep":
		return abs(number(args[1])-number(args[0])) / max(abs(number(args[2])), 1)
	case "seq":
		least, most := 0, 0
		for i := range args[0].Len() {
			least, most = min(least, number(args[0].Index(i))), max(most, number(args[0].Index(i)))
		}
		return product(most-least, 8)
	case "replace": // old, new, text
		return product(strings.Count(text(args[2]), text(args[0])), len(text(args[1])))
	case "regexReplaceAll", "regexReplaceAllLiteral", "mustRegexReplaceAll", "mustRegexReplaceAllLiteral": // expression, text, new
		return product(len(text(args[1]))+1, len(text(args[2])))
	case "join": // separator, list
		if list := concrete(args[1]); list.Kind() == reflect.Slice {
			return product(list.Len(), len(text(args[0])))
		}
	}
	return 0
}

func text(v reflect.Value) string {
	if v = concrete(v); v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}

func number(v reflect.Value) int {
	if v = concrete(v); v.CanInt() {
		return int(max(min(v.Int(), 1<<40), -1<<40))
	}
	return 0
}

func abs(n int) int { return max(n, -n) }

func concrete(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// fits reports whether a value, written out, fits the limit: maps may share values.
func fits(v reflect.Value, left *int, depth int) bool {
	v = concrete(v)
	if *left--; *left < 0 || depth > MaxNested { // a map may contain itself
		return false
	}
	switch v.Kind() {
	case reflect.String:
		*left -= v.Len()
		return *left >= 0
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if !fits(it.Key(), left, depth+1) || !fits(it.Value(), left, depth+1) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			*left -= v.Len()
			return *left >= 0
		}
		for i := range v.Len() {
			if !fits(v.Index(i), left, depth+1) {
				return false
			}
		}
	}
	return true
}
