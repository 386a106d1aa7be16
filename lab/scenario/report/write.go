package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"homelab/lab/scenario"
)

// WritePage writes the timeline of a story into dir and returns its path; "" if the story was not played.
func WritePage(dir string, r *scenario.Result) (string, error) {
	if len(r.Steps) == 0 {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("timeline: %w", err)
	}
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		return "", fmt.Errorf("timeline: %w", err)
	}
	file := filepath.Join(dir, r.Scenario+".html")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		return "", fmt.Errorf("timeline: %w", err)
	}
	return file, nil
}

// WriteJUnit writes results to a file; an empty name is a no-op.
func WriteJUnit(file string, results []*scenario.Result) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	if err := JUnit(&b, results); err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	return nil
}
