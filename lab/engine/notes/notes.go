// Package notes says what upstream calls breaking in the minors of an engine.
package notes

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed notes.yaml
var notesYAML []byte

// Note is one change that an upgrade to a minor brings.
type Note struct {
	Minor string // "3.6"
	Text  string
	URL   string // upstream's page
}

// release is an entry of notes.yaml.
type release struct {
	Engine string   `yaml:"engine"`
	Minor  string   `yaml:"minor"`
	URL    string   `yaml:"url"`
	Notes  []string `yaml:"notes"`
}

var embedded = sync.OnceValues(func() ([]release, error) {
	var list []release
	dec := yaml.NewDecoder(bytes.NewReader(notesYAML))
	dec.KnownFields(true)
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("notes: %w", err)
	}
	return list, nil
})

// Between returns the notes of the minors after from, up to and including to, the oldest first. The versions are minors or exact, with or without a v. There are
// none for patches, for a way back and for versions that are not numbers.
func Between(engine, from, to string) []Note {
	list, err := embedded()
	low, lowOK := minor(from)
	high, highOK := minor(to)
	if err != nil || !lowOK || !highOK {
		return nil
	}
	var found []release
	for _, r := range list {
		if m, _ := minor(r.Minor); r.Engine == engine && slices.Compare(m, low) > 0 && slices.Compare(m, high) <= 0 {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b release) int {
		x, _ := minor(a.Minor)
		y, _ := minor(b.Minor)
		return slices.Compare(x, y)
	})
	var notes []Note
	for _, r := range found {
		for _, text := range r.Notes {
			notes = append(notes, Note{Minor: r.Minor, Text: text, URL: r.URL})
		}
	}
	return notes
}

// Known reports whether lab has notes of the minor of a version.
func Known(engine, version string) bool {
	list, err := embedded()
	m, ok := minor(version)
	return err == nil && ok && slices.ContainsFunc(list, func(r release) bool {
		have, _ := minor(r.Minor)
		return r.Engine == engine && slices.Equal(have, m)
	})
}

// minor returns major and minor of a version.
func minor(version string) ([]int, bool) {
	var major, number int
	n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &number)
	return []int{major, number}, n == 2
}
