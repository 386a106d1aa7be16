package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// What the supervisor logs is read line by line, however it is written, and what it did not write is kept.
func TestRunnerLog(t *testing.T) {
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).With("request", 3, "title", "a title", "head", "3f2c1d90a7b64e5f").Info("checked", "check", "diff", "state", "success", "said", "1 change", "took", 1500*time.Millisecond)
	slog.New(slog.NewJSONHandler(&log, nil)).Error("the forge", "error", "refused\nall")
	log.WriteString("panic: \x1b[2Jno\n")
	var lines []string
	w := &lineWriter{line: func(text []byte) {
		_, line, _ := strings.Cut(runnerEntry(text).String(), " ") // without the time
		lines = append(lines, line)
	}}
	for b := range bytes.SplitSeq(log.Bytes(), nil) { // single bytes
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(lines, "\n"), "checked #3 (a title) at 3f2c1d9 diff: success - 1 change (1.5s)\nerror the forge - refused all\nerror panic: no"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
