package supply

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"homelab/lab"
	"homelab/lab/supply/disk"
)

// decision records the choice of mode auto, so that a running lab does not switch origins when a registry comes back,
// and a run without changes needs no network.
type decision struct {
	Origin lab.Origin `json:"origin"`
	Bundle string     `json:"bundle,omitempty"` // id of the bundle, for OriginBundle
	Mirror string     `json:"mirror,omitempty"` // for OriginRegistry
	Why    string     `json:"why"`
}

// nodeComponent is the image that every lab needs, in one version or another: auto's decision holds while it is present.
const nodeComponent = "node"

func (s *Supply) decisionFile() string { return filepath.Join(s.options.CacheDir, "supply.json") }

func (s *Supply) remember(d decision) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := disk.WriteFile(s.decisionFile(), append(data, '\n')); err != nil {
		return disk.Explain(fmt.Errorf("bundle: %w", err), s.options.CacheDir, disk.CacheCure)
	}
	return nil
}

// remembered returns the last decision. An unreadable one is ignored.
func (s *Supply) remembered() (decision, bool) {
	var d decision
	data, err := os.ReadFile(s.decisionFile())
	if err != nil || json.Unmarshal(data, &d) != nil {
		return decision{}, false
	}
	return d, true
}

// auto repeats the last decision if possible, else picks registries if they answer, else source if possible. A failed
// request is an error, not a reason to decide again.
func (s *Supply) auto(ctx context.Context, possible func() error) error {
	if d, ok := s.remembered(); ok {
		if again, err := s.again(ctx, d); again || err != nil {
			return err
		}
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
	if err := possible(); err != nil {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "no_images", Message: "no registry answers: " + answer.Why,
			Cure: "check the network, or use --images bundle=FILE with an archive that `lab bundle save` created elsewhere", Err: err,
		}
	}
	s.useSource()
	s.why += ": " + answer.Why
	return s.remember(decision{Origin: lab.OriginSource, Why: s.why})
}

// again applies the last decision and reports whether that is possible.
func (s *Supply) again(ctx context.Context, d decision) (bool, error) {
	switch d.Origin {
	case lab.OriginBundle:
		b, ok, err := loadedBundle(s.store, s.options, d.Bundle)
		if !ok || err != nil {
			return false, err
		}
		s.from = &withOwn{b, s.built}
	case lab.OriginRegistry:
		if d.Mirror != s.options.Mirror {
			return false, nil
		}
		if _, err := s.useRegistry(); err != nil {
			return false, err
		}
	case lab.OriginSource:
		if s.options.Mirror != "" {
			return false, nil
		}
		s.useSource()
	default:
		return false, nil
	}
	s.origin, s.why = d.Origin, d.Why
	if err := s.list(ctx); err != nil {
		return false, err
	}
	return slices.ContainsFunc(s.items, func(i Item) bool { return i.Kind == KindImage && i.base() == nodeComponent && i.Present }), nil
}
