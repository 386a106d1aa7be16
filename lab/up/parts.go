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

// partStates observes all parts in parallel.
func (l *Lab) partStates(ctx context.Context) (map[string]service.State, error) {
	states := map[string]service.State{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range l.Parts {
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

func (l *Lab) observeParts(ctx context.Context, s *Seen) error {
	states, err := l.partStates(ctx)
	s.Parts = map[string]plan.PartState{}
	for name, st := range states {
		s.Parts[name] = plan.PartState{Exists: st.Exists, Volume: st.Volume, Running: st.Running, Connected: st.Connected, Answers: st.Answers, Behind: st.Behind, Inputs: st.Inputs}
	}
	return err
}

// standingParts returns the parts of which something exists.
func (l *Lab) standingParts(ctx context.Context) ([]plan.Part, error) {
	states, err := l.partStates(ctx)
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
		return apply.Outcome{Detail: "removed", Changes: []string{s.Reason}}, part.Service.Remove(ctx)
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
	if err := part.Service.Start(ctx, p, images...); err != nil {
		return apply.Outcome{}, err
	}
	return apply.Outcome{Detail: "runs", Changes: []string{s.Reason}}, nil
}

// PartStatus is the state of a part.
type PartStatus struct {
	Name  string
	State service.State
}

// partsStatus returns the parts that the estate has, and what is left of others.
func (l *Lab) partsStatus(ctx context.Context) ([]PartStatus, error) {
	states, err := l.partStates(ctx)
	var list []PartStatus
	for _, part := range l.Parts {
		if st := states[part.Name]; part.Wanted || st.Exists {
			list = append(list, PartStatus{Name: part.Name, State: st})
		}
	}
	return list, err
}
