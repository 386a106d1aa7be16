package supply

import (
	"strings"
	"testing"

	"homelab/lab/supply/source"
)

// Each figure is of an image that lab has a recipe of, and says something.
func TestFigures(t *testing.T) {
	figures, err := Figures()
	if err != nil {
		t.Fatal(err)
	}
	recipes, err := source.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range figures {
		if c, ok := recipes.Get(name); !ok || c.Kind != source.KindImage {
			t.Errorf("%s is not an image", name)
		}
		if f.Size <= 0 || f.Memory < 0 || f.Seconds < 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if _, err := parseFigures([]byte("figures: {podinfo: {siez: 3}}")); err == nil || !strings.Contains(err.Error(), "siez") {
		t.Errorf("got %v", err)
	}
}
