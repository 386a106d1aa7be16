package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"homelab/lab"
)

// With -o json, stdout has one document, also if the command fails after its result.
func TestOneDocument(t *testing.T) {
	var out, narration bytes.Buffer
	u := New(Options{Out: &out, Err: &narration, JSON: true})
	if err := u.JSON(URLResult{"http://127.0.0.1:3000"}); err != nil {
		t.Fatal(err)
	}
	if exit := u.Error(errors.New("the lab is not removed")); exit != lab.ExitFailed {
		t.Errorf("exit %d", exit)
	}
	d := json.NewDecoder(&out)
	var result URLResult
	if err := d.Decode(&result); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(&result); !errors.Is(err, io.EOF) {
		t.Errorf("a second document: %v", err)
	}
	if !strings.Contains(narration.String(), "the lab is not removed") {
		t.Errorf("the error is not said: %q", narration.String())
	}
	if u.JSON(result) == nil {
		t.Error("a second result is written")
	}
}

// An error that is its own cause and detail is printed once.
func TestErrorOnce(t *testing.T) {
	cause := errors.New("exit status 1")
	_, text := printed(false, func(u *UI) {
		u.Error(&lab.Error{Message: "it failed", Err: cause, Details: []string{cause.Error(), "more"}})
	})
	if strings.Count(text, cause.Error()) != 1 || !strings.Contains(text, "more") {
		t.Errorf("printed %q", text)
	}
}
