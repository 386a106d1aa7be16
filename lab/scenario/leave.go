package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/fieldpath"
	"homelab/lab/yamledit"
)

// leave undoes the story and compares the lab with the snapshot. An interrupt is recorded but does not stop it.
func (p *playing) leave(ctx context.Context, interrupted func() bool) {
	now := time.Now()
	r := StepResult{Number: p.last + 1, Title: restoredTitle, Verb: "leave", Always: true, Began: now.Sub(p.result.Began)}
	for _, u := range slices.Backward(p.undos) {
		r.Back = append(r.Back, u.title)
	}
	p.onStep(r)
	left := p.undo(ctx)
	if err := p.member.undo(ctx); err != nil && len(left) == 0 {
		left = []string{"not compared: " + err.Error()}
	}
	if len(left) == 0 {
		left = p.compare(ctx)
	}
	r.Took, r.Verdict, r.Back = time.Since(now), Passed, nil
	if len(left) > 0 {
		p.result.Left = left
		r.Verdict = Failed
		r.Unmet = &Unmet{Expected: restoredTitle, LastSeen: left[0], Notes: append(left[1:len(left):len(left)], "lab up restores the lab's estate")}
	}
	switch {
	case ctx.Err() != nil: // second interrupt
		r.Verdict, p.result.Verdict = Interrupted, Interrupted
	case p.result.Verdict == Passed && interrupted():
		p.result.Verdict = Interrupted
	case p.result.Verdict == Passed:
		p.result.Verdict = r.Verdict
	}
	p.result.Steps = append(p.result.Steps, r)
	p.onStep(r)
}

// undo runs the undos in reverse order, each with its own timeout. A failure is reported and does not stop the others. compare reports an engine that does not follow.
func (p *playing) undo(ctx context.Context) []string {
	all := undoTimeout
	for _, u := range p.undos {
		all += u.within - undoEachTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, all, fmt.Errorf("no time left after %s", Span(all)))
	defer cancel()
	var left []string
	each := func(last bool) {
		for _, u := range slices.Backward(p.undos) {
			if u.last != last {
				continue
			}
			_, err := within(ctx, u.within, func(ctx context.Context) (struct{}, error) { return struct{}{}, u.do(ctx) })
			if err != nil {
				left = append(left, u.title+": "+err.Error())
			}
		}
	}
	each(false)
	has := func(is func(undo) bool) bool { return slices.ContainsFunc(p.undos, is) }
	if has(func(u undo) bool { return u.last }) && has(func(u undo) bool { return u.branch }) && p.before.settled == p.before.head {
		if tree, err := p.world.Forge.Tree(ctx, Branch); err == nil {
			_ = p.follow(ctx, tree.Commit)
		}
	}
	each(true)
	p.undos = nil
	return left
}

// compare waits for the engine to converge and returns the differences to the snapshot.
func (p *playing) compare(ctx context.Context) []string {
	if ctx.Err() != nil {
		return []string{"not compared: " + context.Cause(ctx).Error()}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now := newSnapshot()
	var left []string
	for _, err := range now.ask(ctx, p.world) {
		left = append(left, err.Error())
	}
	left = append(left, p.before.askedChanged(now)...)
	switch {
	case len(left) > 0:
	case p.before.settled == p.before.head:
		if err := p.follow(ctx, now.head); err != nil {
			left = append(left, "the engine does not follow: "+err.Error())
		}
	default:
		go p.remind(ctx)
	}
	patience := restoreTimeout
	if len(left) > 0 { // already failed, do not wait
		patience = 0
	}
	var changed []string
	out, err := p.recorder.await(ctx, Wish{From: p.recorder.now(), By: time.Now().Add(lab.FarLimit * patience), Patience: patience, Concerns: anything, Judge: func(v View) Judgement {
		changed = p.before.changed(v, now.head)
		return Judgement{Met: len(changed) == 0, Seen: strings.Join(changed, "; ")}
	}})
	if !out.Met {
		left = append(left, changed...)
	}
	if err != nil {
		left = append(left, "not waited for: "+err.Error())
	}
	return left
}

// follow waits until the engine has synced the restored commit, if it was in sync before. The status of Applications is
// not enough: one that has not yet seen the story's commit looks unchanged, and syncs it later.
func (p *playing) follow(ctx context.Context, head string) error {
	var but []string
	for _, a := range p.before.apps {
		if !a.Converged() {
			but = append(but, a.Name)
		}
	}
	ctx, moved, cancel := lab.Patient(ctx, restoreTimeout)
	defer cancel()
	_, err := within(ctx, 2*lab.FarLimit*restoreTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.world.Engine.Follow(ctx, head, but, moved)
	})
	return err
}

// refreshAfter is how long an engine may take to notice the restored commit before it is refreshed.
const refreshAfter = 3 * time.Second

// remind refreshes an engine that lagged before the story until ctx ends. An engine that is notified of a commit while
// it processes the previous one may miss it until its next poll, minutes later. The story's own expectations get no
// such help.
func (p *playing) remind(ctx context.Context) {
	tick := time.NewTicker(refreshAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = p.world.Engine.Refresh(ctx) // the comparison reports what the engine misses
		}
	}
}

// missing returns the first unmet requirement, or "".
func (p *playing) missing() string {
	need := p.scenario.Requires
	if len(need.Engine) > 0 && !slices.Contains(need.Engine, p.world.Engines) {
		return fmt.Sprintf("it needs %s, but the lab runs %s", strings.Join(lab.EngineNames(need.Engine), " or "), p.world.Engines)
	}
	for _, name := range slices.Concat(need.Clusters, imageClusters(need)) {
		if _, ok := p.world.Estate.Cluster(name); !ok {
			return fmt.Sprintf("the lab has no cluster %s", name)
		}
	}
	for _, step := range p.scenario.all() {
		if a, ok := step.Action.(interface{ Lacks(World) string }); ok {
			if why := a.Lacks(p.world); why != "" {
				return why
			}
		}
	}
	hub := p.world.Estate.Hub()
	for _, part := range need.Parts {
		if !part.of(hub) {
			return fmt.Sprintf("the lab has no %s; spec.%s: {} in %s and lab up give it one", part, part, lab.ClusterFile(hub.Name))
		}
	}
	for _, component := range need.components {
		if !slices.Contains(hub.Engine.Extra, component) {
			return fmt.Sprintf("the lab's %s has no %s; spec.engine.componentsExtra in %s and lab up give it one", p.world.Engines.Title(), component, lab.ClusterFile(hub.Name))
		}
	}
	for _, addon := range slices.Sorted(maps.Keys(need.Addons)) {
		for _, name := range need.Addons[addon] {
			c, ok := p.world.Estate.Cluster(name)
			if ok && c.Addons[addon] {
				continue
			}
			why := fmt.Sprintf("cluster %s does not have the addon %s", name, addon)
			if _, known := p.world.Estate.Addon(addon); ok && known {
				why += "; lab addon enable " + lab.Quote(addon, "--cluster", name) + " and lab up give it"
			}
			return why
		}
	}
	return ""
}

// answer checks that every required cluster answers. One that does not is a failure, not a reason to skip.
func (p *playing) answer(ctx context.Context) error {
	need := map[string]bool{}
	for _, name := range slices.Concat(p.scenario.Requires.Clusters, imageClusters(p.scenario.Requires)) {
		need[name] = true
	}
	for _, names := range p.scenario.Requires.Addons {
		for _, name := range names {
			need[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(need)) {
		if err := p.answers(ctx, name); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "no_cluster", Message: fmt.Sprintf("cluster %s does not answer, last seen: %v", name, err), Cure: "lab up repairs it",
			}
		}
	}
	return nil
}

// imageClusters returns the clusters that get images, sorted.
func imageClusters(need Requires) []string {
	var names []string
	for _, clusters := range need.Images {
		names = append(names, clusters...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// images brings the required images to the clusters.
func (p *playing) images(ctx context.Context) error {
	need := p.scenario.Requires
	for _, cluster := range imageClusters(need) {
		var names []string
		for _, image := range slices.Sorted(maps.Keys(need.Images)) {
			if slices.Contains(need.Images[image], cluster) {
				names = append(names, image)
			}
		}
		if p.player.Images == nil {
			continue
		}
		if err := p.player.Images(ctx, cluster, names); err != nil {
			return err
		}
	}
	return nil
}

func (p *playing) answers(ctx context.Context, cluster string) error {
	client, err := p.world.Clusters.Client(cluster)
	if err != nil {
		return err
	}
	return answered(ctx, func(ctx context.Context) error {
		_, err := client.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// settled waits until every subject was seen and the required applications have converged. Otherwise, the story's changes could not be distinguished from
// others, nor compared at the end.
func (p *playing) settled(ctx context.Context, subjects []Subject) error {
	subjects = append([]Subject{Applications()}, subjects...)
	out, err := p.recorder.await(ctx, Wish{From: p.recorder.now(), By: time.Now().Add(lab.FarLimit * settleTimeout), Patience: settleTimeout, Concerns: anything, Judge: func(v View) Judgement {
		for _, s := range subjects {
			if state := v.State(s); !state.Known && !unnamed(s) {
				return Judgement{Seen: state.Unseen(s)}
			}
		}
		for _, addon := range slices.Sorted(maps.Keys(p.scenario.Requires.Addons)) {
			for _, cluster := range p.scenario.Requires.Addons[addon] {
				for _, s := range v.Of(ApplicationOf(cluster, addon)) {
					if a := v[s].Application; a != nil && !a.Converged() { // the story decides whether it may be missing
						text, _ := describe(v[s], nil)
						return Judgement{Seen: s.String() + ": " + text}
					}
				}
			}
		}
		return Judgement{Met: true}
	}})
	if err != nil {
		return err
	}
	if !out.Met {
		return fmt.Errorf("%w: the lab is not settled, %s", errTimeUp, out.Seen)
	}
	return nil
}

// notes returns engine state that may explain why an object is not as expected.
func (p *playing) notes(ctx context.Context, s Subject) []string {
	view := p.recorder.view(p.recorder.now())
	var notes []string
	for _, at := range sortedSubjects(view) {
		a := view[at].Application
		if a == nil || at.Cluster != s.Cluster || a.Namespace != s.Namespace && !s.includes(at) {
			continue
		}
		if !a.Heals {
			notes = append(notes, fmt.Sprintf("%s has %s", at, p.notHealing(ctx, a.Addon)))
		}
		if !s.includes(at) && !a.Converged() {
			notes = append(notes, fmt.Sprintf("%s is %s and %s", at, SyncWord(a.Sync), HealthWord(a.Health)))
		}
		if a.Message != "" {
			notes = append(notes, Shown(a.Message))
		}
	}
	return notes
}

// notHealing explains why drift stays, with file and line in the forge if known.
func (p *playing) notHealing(ctx context.Context, addon string) string {
	field, text := "spec.template.spec.syncPolicy.automated.selfHeal", "selfHeal: false"
	if p.world.Engines == lab.EngineFlux {
		field, text = "spec.driftDetection.mode", "no driftDetection that corrects"
	}
	at, err := fieldpath.Parse(field)
	a, known := p.world.Estate.Addon(addon)
	if err != nil || !known {
		return text
	}
	tree, err := p.world.Forge.Tree(ctx, Branch)
	if err != nil {
		return text
	}
	f, err := fileAt(tree.FS, a.File)
	if err != nil || f == nil {
		return text
	}
	if line := yamledit.Line(f.Content, at); line > 0 {
		return fmt.Sprintf("%s (%s:%d)", text, a.File, line)
	}
	return text
}
