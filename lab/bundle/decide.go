package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"homelab/lab"
	"homelab/lab/bundle/source"
)

// decision is what mode auto took, so that a lab that is up is not made anew from elsewhere because a registry answers today and did not yesterday; and so
// that a run that changes nothing asks nobody.
type decision struct {
	Origin lab.Origin `json:"origin"`
	Bundle string     `json:"bundle,omitempty"` // which, for OriginBundle
	Mirror string     `json:"mirror,omitempty"` // for OriginRegistry
	Why    string     `json:"why"`
}

// nodeComponent is the image that every lab needs first: while it is at hand, what auto decided holds.
const nodeComponent = "node"

func (s *Supply) decisionFile() string { return filepath.Join(s.options.CacheDir, "supply.json") }

func (s *Supply) remember(d decision) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(s.options.CacheDir, "supply-*.json")
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(append(data, '\n'))
	if err := errors.Join(err, tmp.Close(), os.Rename(tmp.Name(), s.decisionFile())); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// remembered returns the last decision; one that cannot be read is none, since it can always be made again.
func (s *Supply) remembered() (decision, bool) {
	var d decision
	data, err := os.ReadFile(s.decisionFile())
	if err != nil || json.Unmarshal(data, &d) != nil {
		return decision{}, false
	}
	return d, true
}

func (s *Supply) auto(ctx context.Context) error {
	if d, ok := s.remembered(); ok && s.again(ctx, d) {
		return nil
	}
	r, err := s.useRegistry()
	if err != nil {
		return err
	}
	answer := r.Probe(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if answer.OK {
		s.why += ": " + answer.Why
		return s.remember(decision{Origin: lab.OriginRegistry, Mirror: s.options.Mirror, Why: s.why})
	}
	if err := source.Possible(); err != nil {
		s.from, s.origin, s.why = nothing{&lab.Error{
			Exit: lab.ExitFailed, Code: "no_images", Message: "no registry answers: " + answer.Why,
			Cure: "check the network, or use --images bundle=FILE with an archive that `lab bundle save` made elsewhere", Err: err,
		}}, "", "no images: "+answer.Why
		return nil
	}
	s.useSource()
	s.why += ": " + answer.Why
	return s.remember(decision{Origin: lab.OriginSource, Why: s.why})
}

// again takes what was decided before, and says whether that can be done.
func (s *Supply) again(ctx context.Context, d decision) bool {
	switch d.Origin {
	case lab.OriginBundle:
		b, ok := loadedBundle(s.store, d.Bundle)
		if !ok {
			return false
		}
		s.from = b
	case lab.OriginRegistry:
		if d.Mirror != s.options.Mirror {
			return false
		}
		if _, err := s.useRegistry(); err != nil {
			return false
		}
	case lab.OriginSource:
		if s.options.Mirror != "" {
			return false
		}
		s.useSource()
	default:
		return false
	}
	s.origin, s.why = d.Origin, d.Why
	items, err := s.from.Items(ctx)
	if err != nil {
		return false
	}
	for _, i := range items {
		if i.Kind == KindImage && i.Name == nodeComponent {
			return i.AtHand
		}
	}
	return false
}

// nothing is what is left where no registry answers and nothing can be built: a bundle can still be loaded.
type nothing struct{ err error }

func (n nothing) Image(context.Context, string, lab.Progress) (lab.Image, error) {
	return lab.Image{}, n.err
}

func (n nothing) Chart(context.Context, string, string, lab.Progress) (lab.Chart, error) {
	return lab.Chart{}, n.err
}

func (n nothing) Items(context.Context) ([]Item, error) { return nil, n.err }
