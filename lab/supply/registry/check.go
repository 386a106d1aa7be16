package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"homelab/lab"
)

// Check is what the content of an image or chart was, or will be, verified against.
type Check string

const (
	CheckPin      Check = "pin"       // the digest in pins.yaml
	CheckRecipe   Check = "recipe"    // built on this machine from a recipe, whose modules and packages are checked
	CheckClaim    Check = "claim"     // the recipe that the author of the bundle or mirror claims
	CheckFirstUse Check = "first-use" // nothing but what was pulled first: pins.yaml has no digest
)

// Verdict is a check with remarks for the user.
type Verdict struct {
	Check Check
	Why   string // empty for CheckPin and CheckRecipe
}

// Image checks an image's content against lab's pin of the same name and tag, for a platform "linux/amd64". One that
// differs is an error. What lab does not pin, and what was built from a recipe, is not compared.
func (p Pins) Image(img lab.Image, platform string) (Verdict, error) {
	pin, _ := p.image(img.Name)
	if pin.Ref != img.Ref {
		pin = ImagePin{Unknown: "lab pins no " + img.Ref}
	}
	return verdict("image "+img.Ref, pin.For(platform), pin.Unknown, img.Key, func(want string) (string, bool) {
		manifests := strings.Split(img.Manifests, separator)
		return sum([]byte(manifests[0])), proves(want, img.Digest, manifests)
	})
}

// Chart checks a chart like Image.
func (p Pins) Chart(c lab.Chart) (Verdict, error) {
	pin, ok := p.chart(c.Name, c.Version)
	if !ok {
		pin.Unknown = "lab pins no chart " + c.Name + " " + c.Version
	}
	return verdict("chart "+c.Name+" "+c.Version, pin.Digest, pin.Unknown, c.Key, func(want string) (string, bool) {
		return c.Digest, c.Digest == want
	})
}

func verdict(what, want, unknown, key string, compare func(want string) (got string, same bool)) (Verdict, error) {
	if want != "" {
		got, same := compare(want)
		if same {
			return Verdict{Check: CheckPin}, nil
		}
		if key == "" {
			return Verdict{}, Differs(what, want, got)
		}
	}
	if key != "" {
		return Verdict{CheckClaim, "built elsewhere from recipe " + key[:min(12, len(key))]}, nil
	}
	return Verdict{CheckFirstUse, unknown}, nil
}

// Expected is the verdict that pulling an image will come to, from pins in effect: one that differs is not pulled.
func (r *Registry) Expected(pin ImagePin) Verdict { return r.lab.Expected(pin, r.platform.String()) }

// ExpectedChart is Expected for a chart.
func (r *Registry) ExpectedChart(pin ChartPin) Verdict { return r.lab.ExpectedChart(pin) }

// Expected is the verdict that pulling what another pin names will come to.
func (p Pins) Expected(pin ImagePin, platform string) Verdict {
	own, _ := p.image(pin.Name)
	if own.Ref != pin.Ref {
		own = ImagePin{Unknown: "lab pins no " + pin.Ref}
	}
	return expected(own.For(platform), own.Unknown, pin.Key)
}

// ExpectedChart is Expected for a chart.
func (p Pins) ExpectedChart(pin ChartPin) Verdict {
	own, ok := p.chart(pin.Name, pin.Version)
	if !ok {
		own.Unknown = "lab pins no chart " + pin.Name + " " + pin.Version
	}
	return expected(own.Digest, own.Unknown, pin.Key)
}

func expected(want, unknown, key string) Verdict {
	v, err := verdict("", want, unknown, key, func(want string) (string, bool) { return want, key == "" })
	if err != nil {
		return Verdict{}
	}
	return v
}

// Differs is the error of content that is not the pinned one.
func Differs(what, want, got string) error {
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "digest_differs", Message: what + " does not match lab's pin",
		Cure: "take it from upstream's registry or from source, or recreate the bundle or mirror", Details: []string{"pinned " + want, "found  " + got},
	}
}

// separator is between the manifests of an image.
const separator = "\x00"

// proves reports whether manifests lead from a pinned digest to an image's configuration: each must be named by the one
// before. Their storage cannot forge any.
func proves(pinned, config string, manifests []string) bool {
	at := slices.IndexFunc(manifests, func(m string) bool { return sum([]byte(m)) == pinned })
	if at < 0 {
		return false
	}
	for named := []string{pinned}; at < len(manifests); at++ {
		if !slices.Contains(named, sum([]byte(manifests[at]))) {
			return false
		}
		var m struct {
			Config    v1.Descriptor
			Manifests []v1.Descriptor
		}
		if err := json.Unmarshal([]byte(manifests[at]), &m); err != nil {
			return false
		}
		if m.Config.Digest.Hex != "" {
			return m.Config.Digest.String() == config
		}
		named = nil
		for _, d := range m.Manifests {
			named = append(named, d.Digest.String())
		}
	}
	return false
}

// keyOf returns the key of the recipe in an image's labels.
func keyOf(config *v1.ConfigFile) string { return config.Config.Labels[lab.LabelInputs] }

// claimed returns an error unless an image's labels name the recipe that the mirror claims.
func claimed(key string, config *v1.ConfigFile) error {
	if key == "" || key == keyOf(config) {
		return nil
	}
	return fmt.Errorf("its label names recipe %q where the mirror's pins name %q", keyOf(config), key)
}
