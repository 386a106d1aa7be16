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
	runs := state.Former{Engine: was.Engine, Shape: was.Shape, Namespace: was.Namespace}
	if was.Engine != "" && !l.same(runs) {
		if !o.Switch {
			return was, l.otherEngineError(runs)
		}
		own := formerOf(l.Definition)
		is.Engine, is.Shape, is.Former = own.Engine, own.Shape, runs
	}
	if is.Former.Engine != "" && o.Others {
		return was, &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%s is replaced in every cluster, and --only leaves some out", title(is.Former.Engine, is.Former.Shape)), Cure: "omit --only",
		}
	}
	return is, nil
}

// same reports whether an engine of the record is that of the lab.
func (l *Lab) same(f state.Former) bool {
	return f.Engine == l.Definition.Type && (f.Shape == lab.ShapeStandalone) == l.Definition.Everywhere()
}

// title names an engine and its shape.
func title(t lab.EngineType, s lab.Shape) string {
	if s == lab.ShapeStandalone {
		return string(t) + " on every cluster"
	}
	return string(t)
}

// Unasked returns an error if a run would replace an engine without o requesting it.
func (l *Lab) Unasked(o Options, seen *Seen) error {
	r, err := l.Dir.Load()
	if err == nil {
		_, err = l.replace(r, r, o)
	}
	if err == nil && seen.former.Type != "" && r.Former.Engine == "" && !o.Switch {
		err = l.otherEngineError(formerOf(seen.former))
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
		if s.Action != lab.ActionNone && slices.Contains([]string{plan.KindCluster, plan.KindForge, plan.KindEstate}, s.Kind) {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "not_up_to_date", Message: fmt.Sprintf("the lab differs from its estate, and switching the engine would change that, too: %s, %s", s.Title(), s.Reason), Cure: "lab up",
			}
		}
	}
	return nil
}

func formerOf(d engine.Definition) state.Former {
	f := state.Former{Engine: d.Type}
	if d.Everywhere() {
		f.Shape = lab.ShapeStandalone
	}
	return f
}

func (l *Lab) otherEngineError(runs state.Former) error {
	own := formerOf(l.Definition)
	from, to := title(runs.Engine, runs.Shape), title(own.Engine, own.Shape)
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "other_engine", Message: fmt.Sprintf("the lab runs %s, and %s would replace it", from, to),
		Details: []string{
			from + " would be removed, with its settings and its history",
			"the objects that it applied would stay, and be adopted by " + to,
			"nothing was touched",
		},
		Cure: fmt.Sprintf("lab up --engine %s --switch-engine to replace it; to stay with it, %s", lab.Quote(string(own.Engine)), l.staying(runs)),
	}
}

// staying returns how to keep the engine that the lab runs.
func (l *Lab) staying(runs state.Former) string {
	if runs.Engine == l.Definition.Type {
		return "undo the change of spec.engine.shape in " + lab.ClusterFile(l.hubName()) + ", and run lab generate"
	}
	return fmt.Sprintf("lab up --engine %s", lab.Quote(string(runs.Engine)))
}

// other returns the definition of another engine, or the zero value if there is none.
func (l *Lab) other(f state.Former) engine.Definition {
	i := slices.IndexFunc(l.Others, func(d engine.Definition) bool {
		return d.Type == f.Engine && d.Everywhere() == (f.Shape == lab.ShapeStandalone)
	})
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
	if now := (state.Former{Engine: r.Engine, Shape: r.Shape, Namespace: r.Namespace}); r.Engine != "" && !l.same(now) {
		was = now
	}
	s.recorded, s.former = r.Engine != "", l.other(was)
	s.Former = title(was.Engine, was.Shape)
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
			s.former, s.Former = d, title(d.Type, formerOf(d).Shape)
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
	if record.Former.Engine == "" {
		own := formerOf(r.Definition)
		record.Engine, record.Shape, record.Former = own.Engine, own.Shape, formerOf(r.seen.former)
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
	record.Former = state.Former{}
	return apply.Outcome{Detail: r.seen.former.Title + " is removed, the objects that it applied stay", Changes: changes}, r.Dir.Save(record)
}
