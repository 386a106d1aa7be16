package supply

import (
	"bytes"
	_ "embed"
	"fmt"

	"go.yaml.in/yaml/v3"
)

//go:embed figures.yaml
var figuresYAML []byte

// Figure is what an image took where it was measured; 0 if it was not.
type Figure struct {
	Size    int `yaml:"size"`    // MB of the image
	Memory  int `yaml:"memory"`  // MB of its pods at rest
	Seconds int `yaml:"seconds"` // until its addon was healthy, on a running lab with the image at hand
}

// Figures returns what was measured, by image.
func Figures() (map[string]Figure, error) { return parseFigures(figuresYAML) }

func parseFigures(data []byte) (map[string]Figure, error) {
	var doc struct {
		Figures map[string]Figure `yaml:"figures"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("figures.yaml: %w", err)
	}
	return doc.Figures, nil
}
