package up

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/plan"
	"homelab/lab/service"
)

// Part is an optional part of a lab, whether or not its estate has it. Its Inputs are computed.
type Part struct {
	plan.Part
	Images  []string // components; the first is the container's
	Charts  bool     // its service carries the addons' charts
	Passing bool     // it has nothing to keep: snapshots are without it
	Service Service
	// Leave removes what the part has in clusters that stay; may be nil.
	Leave func(context.Context) error
}

// Service runs a part. Images are those of Part.Images.
type Service interface {
	Inputs(images ...lab.Image) string
	Observe(ctx context.Context) (service.State, error)
	Start(ctx context.Context, p lab.Progress, images ...lab.Image) error
	Remove(ctx context.Context) error
}

// part returns the part of a step's kind.
func (l *Lab) part(kind string) (Part, bool) {
	if i := slices.IndexFunc(l.Parts, func(p Part) bool { return p.Name == kind }); i >= 0 {
		return l.Parts[i], true
	}
	return Part{}, false
}

// parts returns the parts with the digests of their inputs, or the observed ones if their images are not available locally.
func (l *Lab) parts(ctx context.Context, seen plan.Observed) []plan.Part {
	var list []plan.Part
	for _, part := range l.Parts {
		p := part.Part
		p.Inputs = seen.Parts[p.Name].Inputs
		if p.Wanted {
			if images, ok := l.imagesAtHand(ctx, part); ok {
				p.Inputs = part.Service.Inputs(images...)
			}
		}
		list = append(list, p)
	}
	return list
}

func (l *Lab) imagesAtHand(ctx context.Context, part Part) ([]lab.Image, bool) {
	var images []lab.Image
	if part.Charts && slices.ContainsFunc(l.addonCharts(), func(n need) bool { return !l.Supply.Present("", n.chart, n.version) }) {
		return nil, false
	}
	for _, name := range part.Images {
		if !l.Supply.Present(name, "", "") {
			return nil, false
		}
		img, err := l.Supply.Image(ctx, name, silent)
		if err != nil {
			return nil, false
		}
		images = append(images, img)
	}
	return images, true
}

// partStates observes parts in parallel.
func (l *Lab) partStates(ctx context.Context, parts []Part) (map[string]service.State, error) {
	states := map[string]service.State{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error {
			st, err := part.Service.Observe(ctx)
			mu.Lock()
			defer mu.Unlock()
			states[part.Name] = st
			return err
		})
	}
	return states, group.Wait()
}

// likelyParts returns the parts that the estate has, and those that may still exist: the others cost no question.
func (l *Lab) likelyParts() []Part {
	return slices.DeleteFunc(slices.Clone(l.Parts), func(p Part) bool { return !p.Wanted && !l.Dir.HasPart(p.Name) })
}

// recordParts records the parts that exist or are about to, before any is created.
func (l *Lab) recordParts(s *Seen) error {
	var names []string
	for _, part := range l.Parts {
		if st := s.Parts[part.Name]; part.Wanted || st.Exists || st.Volume {
			names = append(names, part.Name)
		}
	}
	return l.Dir.SaveParts(names)
}

func (l *Lab) observeParts(ctx context.Context, s *Seen) error {
	states, err := l.partStates(ctx, l.likelyParts())
	s.Parts = map[string]plan.PartState{}
	for name, st := range states {
		s.Parts[name] = plan.PartState{Exists: st.Exists, Volume: st.Volume, Running: st.Running, Connected: st.Connected, Answers: st.Answers, Fault: st.Fault, Behind: st.Behind, Inputs: st.Inputs}
	}
	return err
}

// standingParts returns the parts of which something exists, recorded or not.
func (l *Lab) standingParts(ctx context.Context) ([]plan.Part, error) {
	states, err := l.partStates(ctx, l.Parts)
	var list []plan.Part
	for _, part := range l.Parts {
		if st := states[part.Name]; st.Exists || st.Volume {
			list = append(list, part.Part)
		}
	}
	return list, err
}

func (r *run) doPart(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	part, _ := r.part(s.Kind)
	if s.Action == lab.ActionDelete {
		if s.Loses != "" && !r.options.Prune {
			return apply.Outcome{}, fmt.Errorf("%s: its removal was not requested", part.Name)
		}
		if part.Leave != nil {
			if err := part.Leave(ctx); err != nil {
				return apply.Outcome{}, err
			}
		}
		if err := part.Service.Remove(ctx); err != nil {
			return apply.Outcome{}, err
		}
		return apply.Outcome{Detail: "removed", Changes: []string{s.Reason}}, r.Dir.ForgetPart(part.Name)
	}
	var images []lab.Image
	for i, name := range part.Images {
		get := r.image
		if i == 0 {
			get = r.loadImage
		}
		img, err := get(ctx, name, p)
		if err != nil {
			return apply.Outcome{}, err
		}
		images = append(images, img)
	}
	if part.Charts {
		for _, n := range r.addonCharts() {
			if _, err := r.Supply.Chart(ctx, n.chart, n.version, p); err != nil {
				return apply.Outcome{}, err
			}
		}
	}
	if err := part.Service.Start(ctx, p, images...); err != nil {
		return apply.Outcome{}, err
	}
	return apply.Outcome{Detail: "runs", Changes: []string{s.Reason}}, nil
}

// PartStatus is the state of a part.
type PartStatus struct {
	Name    string
	State   service.State
	Passing bool
}

// partsStatus returns the parts that the estate has, and what is left of others.
func (l *Lab) partsStatus(ctx context.Context) ([]PartStatus, error) {
	states, err := l.partStates(ctx, l.likelyParts())
	var list []PartStatus
	for _, part := range l.Parts {
		if st := states[part.Name]; part.Wanted || st.Exists {
			list = append(list, PartStatus{Name: part.Name, State: st, Passing: part.Passing})
		}
	}
	return list, err
}
