package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"homelab/lab/fieldpath"
)

// SyncWord translates a sync status to the words of scenarios: synced, out-of-sync or unknown.
func SyncWord(s string) string {
	switch s {
	case "Synced":
		return "synced"
	case "OutOfSync":
		return "out-of-sync"
	}
	return "unknown"
}

// HealthWord translates a health status: healthy, progressing, degraded, missing, suspended or unknown.
func HealthWord(s string) string {
	if s == "" {
		return "unknown"
	}
	return strings.ToLower(s)
}

func (s Subject) short() string { return strings.ToLower(s.Kind) + " " + s.Name }

// shownField returns "spec.replicas = 2".
func shownField(object map[string]any, path string) string {
	p, err := fieldpath.Parse(path)
	if err != nil {
		return ""
	}
	v, ok := p.Get(object)
	if !ok {
		return lastKey(path) + " not set"
	}
	return lastKey(path) + " = " + Shown(v)
}

// lastKey shortens a path for the timeline, where the lane gives the context.
func lastKey(path string) string {
	if i := strings.LastIndex(path, `["`); i >= 0 {
		return strings.TrimSuffix(path[i+2:], `"]`)
	}
	if strings.Count(path, ".") > 2 {
		parts := strings.Split(path, ".")
		return strings.Join(parts[len(parts)-2:], ".")
	}
	return path
}

// Shown formats a value for users in one short line.
func Shown(v any) string {
	s, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		s = string(b)
	}
	s = strings.Join(strings.Fields(s), " ")
	const most = 120
	if r := []rune(s); len(r) > most {
		s = string(r[:most-1]) + "…"
	}
	if s == "" {
		return `""`
	}
	return s
}

// Span formats a duration in whole seconds as scenarios do: 2m, where Go has 2m0s.
func Span(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
