package up

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/engine"
	"homelab/lab/plan"
	"homelab/lab/state"
)

// replace returns the record of a run whose engine replaces the one recorded in was. It returns an error unless o requests the replacement or one is
// already in progress.
func (l *Lab) replace(was, is state.Record, o Options) (state.Record, error) {
	if was.Type != "" && !l.same(was.Engine) {
		if !o.Switch {
			return was, l.otherEngineError(was.Engine)
		}
		own := recorded(l.Definition)
		is.Type, is.Shape, is.Former = own.Type, own.Shape, was.Engine
	}
	if is.Former.Type != "" && o.Others {
		return was, &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%s is replaced in every cluster, and --only leaves some out", is.Former), Cure: "omit --only",
		}
	}
	return is, nil
}

// same reports whether an engine of the record is that of the lab.
func (l *Lab) same(e state.Engine) bool { return is(l.Definition, e) }

// is reports whether a definition is of an engine, in any namespace.
func is(d engine.Definition, e state.Engine) bool {
	own := recorded(d)
	return own.Type == e.Type && (own.Shape == lab.ShapeStandalone) == (e.Shape == lab.ShapeStandalone)
}

// Unasked returns an error if a run would replace an engine without o requesting it.
func (l *Lab) Unasked(o Options, seen *Seen) error {
	r, err := l.Dir.Load()
	if err == nil {
		_, err = l.replace(r, r, o)
	}
	if err == nil && seen.former.Type != "" && r.Former.Type == "" && !o.Switch {
		err = l.otherEngineError(recorded(seen.former))
	}
	return err
}

// Current returns an error if a run would change clusters, forge or files of the lab.
func (l *Lab) Current(ctx context.Context, o Options) error {
	seen, err := l.Observe(ctx, o)
	if err != nil {
		return err
	}
	for _, s := range l.Plan(ctx, o, seen) {
		if _, part := l.part(s.Kind); s.Action != lab.ActionNone && (part || slices.Contains([]string{plan.KindCluster, plan.KindForge, plan.KindEstate}, s.Kind)) {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: lab.CodeNotUpToDate, Message: fmt.Sprintf("the lab differs from its estate, and this would change that, too: %s, %s", s.Title(), s.Reason), Cure: "lab up",
			}
		}
	}
	return nil
}

func (l *Lab) otherEngineError(runs state.Engine) error {
	own := recorded(l.Definition)
	from, to := runs.String(), own.String()
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "other_engine", Message: fmt.Sprintf("the lab runs %s, and %s would replace it", from, to),
		Details: []string{
			from + " would be removed, with its settings and its history",
			"the objects that it applied would stay, and be adopted by " + to,
			"nothing was touched",
		},
		Cure: fmt.Sprintf("lab up --engine %s --switch-engine to replace it; to stay with it, %s", lab.Quote(string(own.Type)), l.staying(runs)),
	}
}

// staying returns how to keep the engine that the lab runs.
func (l *Lab) staying(runs state.Engine) string {
	if runs.Type == l.Definition.Type {
		return "undo the change of spec.engine.shape in " + lab.ClusterFile(l.hubName()) + ", and run lab generate"
	}
	return fmt.Sprintf("lab up --engine %s", lab.Quote(string(runs.Type)))
}

// other returns the definition of another engine, or the zero value if there is none.
func (l *Lab) other(e state.Engine) engine.Definition {
	i := slices.IndexFunc(l.Others, func(d engine.Definition) bool { return is(d, e) })
	if i < 0 {
		return engine.Definition{}
	}
	return l.Others[i]
}

// recordedFormer finds the engine to replace in the record.
func (l *Lab) recordedFormer(s *Seen) error {
	r, err := l.Dir.Load()
	if err != nil {
		return err
	}
	was := r.Former
	if r.Type != "" && !l.same(r.Engine) {
		was = r.Engine
	}
	s.recorded, s.former, s.Former = r.Type != "", l.other(was), was.String()
	return nil
}

// installedFormer finds the engine to replace on the hub if the record was lost.
func (l *Lab) installedFormer(ctx context.Context, s *Seen) error {
	if s.recorded || s.Engine.Installed {
		return nil
	}
	for _, d := range l.Others {
		e, err := l.formerOn(d)
		if err != nil {
			return err
		}
		have, err := e.Observe(ctx)
		if err != nil {
			return err
		}
		if have.Installed() {
			s.former, s.Former = d, recorded(d).String()
		}
	}
	return nil
}

func (l *Lab) formerOn(d engine.Definition) (Engine, error) {
	if l.ConnectFormer != nil {
		return l.ConnectFormer(d, l.hubName())
	}
	return l.connect(d, l.hubName())
}

// doRetire removes the former engine. Its record is kept until the removal succeeds, so that an interrupted run is resumed.
func (r *run) doRetire(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	record, err := r.Dir.Load()
	if err != nil {
		return apply.Outcome{}, err
	}
	if record.Former.Type == "" {
		own := recorded(r.Definition)
		record.Type, record.Shape, record.Former = own.Type, own.Shape, recorded(r.seen.former)
		if err := r.Dir.Save(record); err != nil {
			return apply.Outcome{}, err
		}
	}
	spokes, changes := map[string]*rest.Config{}, []string{s.Reason}
	for _, name := range slices.Sorted(maps.Keys(r.seen.Clusters)) {
		c := r.seen.Clusters[name]
		_, in := r.Estate.Cluster(name)
		switch {
		case name == r.hubName() || !c.Exists:
			continue
		case !in && !c.Answers:
			changes = append(changes, fmt.Sprintf("cluster %s, which left the estate and does not answer, keeps its traces", name))
			continue
		}
		if spokes[name], err = r.Clusters.RESTConfig(name); err != nil {
			return apply.Outcome{}, err
		}
	}
	e, err := r.formerOn(r.seen.former)
	if err != nil {
		return apply.Outcome{}, err
	}
	if err := e.Retire(ctx, spokes, p); err != nil {
		return apply.Outcome{}, err
	}
	record.Former = state.Engine{}
	return apply.Outcome{Detail: r.seen.former.Title + " is removed, the objects that it applied stay", Changes: changes}, r.Dir.Save(record)
}
