package ui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAsk(t *testing.T) {
	for name, c := range map[string]struct {
		in    io.Reader
		json  bool
		want  bool
		asked bool
	}{
		"yes": {strings.NewReader("YES\n"), false, true, true}, "no": {strings.NewReader("no\n"), false, false, true}, "EOF": {strings.NewReader(""), false, false, true},
		"no input": {nil, false, false, false}, "JSON": {strings.NewReader("yes\n"), true, false, false},
	} {
		var err bytes.Buffer
		yes, failed := New(Options{Err: &err, In: c.in, JSON: c.json}).Ask(t.Context(), "really?", []string{"cluster dev"})
		asked := err.String() == "would lose cluster dev\nreally? yes or no:\n"
		if yes != c.want || failed != nil || asked != c.asked {
			t.Errorf("%s: %t, %v, %q", name, yes, failed, err.String())
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("interrupted")
	cancel(gone)
	silent, _ := io.Pipe()
	if _, err := New(Options{In: silent}).Ask(ctx, "really?", nil); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestChoose(t *testing.T) {
	for in, want := range map[string]string{"\n": "gold", "2\n": "silver", "silver\n": "silver", "": "gold"} {
		var err bytes.Buffer
		got, failed := New(Options{Err: &err, In: strings.NewReader(in)}).Choose(t.Context(), "which?", []string{"gold", "silver"})
		if got != want || failed != nil || err.String() != "which?\n  1  gold\n  2  silver\nnumber, or enter for the first:\n" {
			t.Errorf("%q: %s, %v, %q", in, got, failed, err.String())
		}
	}
}
