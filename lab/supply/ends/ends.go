// Package ends says until when upstream supports a version.
package ends

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

//go:embed ends.yaml
var endsYAML []byte

// Product is software with a policy of support.
type Product struct {
	Product string              `yaml:"product"`
	Pins    []string            `yaml:"pins"` // images, recipes and modules of its versions
	Also    map[string][]string `yaml:"also"` // minor -> parts of it, "NAME MINOR"
	Keeps   int                 `yaml:"keeps"`
	Newest  string              `yaml:"newest"` // minor, when it was checked
	Until   map[string]string   `yaml:"until"`  // minor -> date
	Source  string              `yaml:"source"`
	Checked string              `yaml:"checked"`
}

// Support is the support of a version.
type Support struct {
	Product string
	Until   string // "2027-02-28", "release of 3.9"; or "unknown: REASON"
	Ended   bool
}

// Embedded returns the built-in table.
func Embedded() ([]Product, error) {
	var list []Product
	dec := yaml.NewDecoder(bytes.NewReader(endsYAML))
	dec.KnownFields(true)
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("ends: %w", err)
	}
	return list, nil
}

// Find returns the support of a version of an image, a recipe or a module, at a time. Newest is the newest version that is known to be released, or "". Product
// is empty where the table has nothing about the name.
func Find(list []Product, name, version, newest string, now time.Time) Support {
	for _, p := range list {
		if slices.Contains(p.Pins, name) {
			return p.support(Minor(version), Minor(newest), now)
		}
		for minor, parts := range p.Also {
			if slices.Contains(parts, name+" "+Minor(version)) {
				return p.support(minor, "", now)
			}
		}
	}
	return Support{}
}

func (p Product) support(minor, newest string, now time.Time) Support {
	s := Support{Product: p.Product, Until: p.Until[minor]}
	if s.Until != "" {
		end, err := time.Parse(time.DateOnly, s.Until)
		s.Ended = err == nil && now.After(end.AddDate(0, 0, 1))
		return s
	}
	major, number, ok := split(minor)
	if !ok || p.Keeps == 0 {
		s.Until = "unknown: " + p.Source + " was not read for " + minor
		return s
	}
	for _, known := range []string{newest, p.Newest} {
		m, n, ok := split(known)
		s.Ended = s.Ended || ok && (m > major || m == major && n >= number+p.Keeps)
	}
	s.Until = fmt.Sprintf("release of %d.%d", major, number+p.Keeps)
	return s
}

// Minor returns "3.6" of "v3.6.1", and other text unchanged.
func Minor(version string) string {
	if major, number, ok := split(version); ok {
		return fmt.Sprintf("%d.%d", major, number)
	}
	return version
}

func split(version string) (major, number int, ok bool) {
	n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &number)
	return major, number, n == 2
}
