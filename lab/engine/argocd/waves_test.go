package argocd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/engine"
)

func TestValuesWaves(t *testing.T) {
	s := testSettings()
	s.Waves = true
	over := map[string]any{"configs": map[string]any{"params": map[string]any{"controller.sync.wave.delay.seconds": "1"}}}
	configs := Values(s, over)["configs"].(map[string]any)
	params, cm := configs["params"].(map[string]any), configs["cm"].(map[string]any)
	if params["applicationsetcontroller.enable.progressive.syncs"] != "true" || cm["resource.customizations.health.argoproj.io_ApplicationSet"] != setHealth(nil) {
		t.Errorf("waves do not wait: %v", params)
	}
	if params["controller.sync.wave.delay.seconds"] != "1" {
		t.Errorf("the hub's own value missing: %v", params)
	}
	if got := Values(s, nil)["configs"].(map[string]any)["params"].(map[string]any)["controller.sync.wave.delay.seconds"]; got != waveDelay {
		t.Errorf("delay %v, want %s", got, waveDelay)
	}
}

// The check runs in Argo CD's own interpreter, with the same libraries.
func TestSetHealth(t *testing.T) {
	now := func(ago time.Duration) string { return time.Now().UTC().Add(-ago).Format(time.RFC3339) }
	generated := func(ago time.Duration) string {
		return "conditions: [{type: ErrorOccurred, status: 'False'}, {type: ParametersGenerated, status: 'True'}, {type: ResourcesUpToDate, status: 'True', lastTransitionTime: '" + now(ago) + "'}]\n"
	}
	for name, c := range map[string]struct{ status, health, message string }{
		"new":                       {"", "Progressing", "its applications are not generated yet"},
		"parameters alone":          {"conditions: [{type: ParametersGenerated, status: 'True'}]", "Progressing", "its applications are not generated yet"},
		"fails":                     {"conditions: [{type: ErrorOccurred, status: 'True', message: no such key}]\nresources: [{name: a, status: Synced, health: {status: Healthy}}]", "Degraded", "no such key"},
		"generated, none known yet": {generated(0), "Progressing", "its applications are not generated yet"},
		"generated, and none":       {generated(time.Minute), "Healthy", ""},
		"all in sync and healthy":   {generated(0) + "resources: [{name: a, status: Synced, health: {status: Healthy}}, {name: b, status: Synced, health: {status: Healthy}}]", "Healthy", ""},
		"one progresses":            {generated(time.Minute) + "resources: [{name: a, status: Synced, health: {status: Healthy}}, {name: b, status: Synced, health: {status: Progressing}}]", "Progressing", "application b is not in sync and healthy yet"},
		"one is degraded":           {generated(time.Minute) + "resources: [{name: a, status: Synced, health: {status: Degraded}}]", "Progressing", "application a is not in sync and healthy yet"},
		"one is out of sync":        {generated(time.Minute) + "resources: [{name: a, status: OutOfSync, health: {status: Healthy}}]", "Progressing", "application a is not in sync and healthy yet"},
		"one was not assessed":      {generated(time.Minute) + "resources: [{name: a, health: {status: ''}}]", "Progressing", "application a is not in sync and healthy yet"},
		"one was never compared":    {generated(time.Minute) + "resources: [{name: a}]", "Progressing", "application a is not in sync and healthy yet"},
		"one replaces argo cd":      {generated(time.Minute) + "resources: [{name: argocd}, {name: a, status: Synced, health: {status: Healthy}}]", "Healthy", ""},
		"unknown cluster":           {generated(time.Minute) + "resources: [{name: a, status: Unknown, health: {status: Unknown}}]", "Progressing", "application a is not in sync and healthy yet"},
	} {
		t.Run(name, func(t *testing.T) {
			var status map[string]any
			if err := yaml.Unmarshal([]byte(c.status), &status); err != nil {
				t.Fatal(err)
			}
			obj := map[string]any{"kind": "ApplicationSet"}
			if c.status != "" {
				obj["status"] = status
			}
			health, message := runHealth(t, setHealth([]string{"argo", "argocd"}), obj)
			if health != c.health || message != c.message {
				t.Errorf("%s %q, want %s %q", health, message, c.health, c.message)
			}
		})
	}
}

func TestApplicationHealth(t *testing.T) {
	healthy := map[string]any{"health": map[string]any{"status": "Healthy"}}
	for name, c := range map[string]struct {
		annotations, status map[string]any
		namespace, want     string
	}{
		"new":                 {nil, nil, Namespace, "Progressing"},
		"healthy":             {nil, healthy, Namespace, "Healthy"},
		"annotated otherwise": {map[string]any{skipReconcile: "true"}, nil, Namespace, "Progressing"},
		"replaces the engine": {map[string]any{skipReconcile: "true", lab.AnnotationReplaces: "true"}, nil, Namespace, "Healthy"},
		"not watched":         {nil, nil, "team", "Healthy"},
	} {
		meta, obj := map[string]any{"namespace": c.namespace}, map[string]any{}
		if c.annotations != nil {
			meta["annotations"] = c.annotations
		}
		obj["metadata"] = meta
		if c.status != nil {
			obj["status"] = c.status
		}
		if got, _ := runHealth(t, applicationHealth(Namespace), obj); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestClaimHealth(t *testing.T) {
	for phase, want := range map[string]string{"": "Healthy", "Pending": "Healthy", "Bound": "Healthy", "Lost": "Degraded"} {
		obj := map[string]any{}
		if phase != "" {
			obj["status"] = map[string]any{"phase": phase}
		}
		if got, _ := runHealth(t, claimHealth, obj); got != want {
			t.Errorf("%q: %s, want %s", phase, got, want)
		}
	}
	if got, _ := runHealth(t, healthy, map[string]any{}); got != "Healthy" {
		t.Error(got)
	}
}

// runHealth runs a check like VM.ExecuteHealthLua of argo-cd: with the libraries package, base, table and the loadable os.
func runHealth(t *testing.T, script string, obj map[string]any) (health, message string) {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	l.PreloadModule(lua.OsLibName, func(l *lua.LState) int {
		l.Push(l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
			"time": func(l *lua.LState) int { l.Push(lua.LNumber(time.Now().Unix())); return 1 },
			"date": func(l *lua.LState) int {
				if layout := l.CheckString(1); layout != "!%Y-%m-%dT%H:%M:%SZ" {
					t.Errorf("os.date(%q)", layout)
				}
				l.Push(lua.LString(time.Unix(l.CheckInt64(2), 0).UTC().Format(time.RFC3339)))
				return 1
			},
		}))
		return 1
	})
	l.SetGlobal("obj", luaValue(l, obj))
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("returned %v", l.Get(-1))
	}
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

func luaValue(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case string:
		return lua.LString(v)
	case []any:
		table := l.NewTable()
		for _, e := range v {
			table.Append(luaValue(l, e))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for k, e := range v {
			table.RawSetString(k, luaValue(l, e))
		}
		return table
	}
	return lua.LNil
}

// heldBack returns a root whose sync waits for the health of an ApplicationSet.
func heldBack(sync, at string) string {
	return waiting(object("addons", newCommit, sync, "Healthy", "  operationState: {phase: Running, message: waiting for healthy state of argoproj.io/ApplicationSet/podinfo, syncResult: {revision: "+at+"}}\n"), "ApplicationSet") +
		"operation: {sync: {revision: " + at + "}}\n"
}

// A wave blocked by a stopped cluster does not delay others.
func TestWaitConvergedBlockedWave(t *testing.T) {
	a, hub, _ := newFake(t, heldBack("Synced", newCommit)+"---"+object("prod-podinfo", newCommit, "Synced", "Healthy", "")+"---\n"+set(""))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	apps, err := a.WaitConverged(ctx, engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}, func(s string) { t.Errorf("progress %q", s) })
	if err != nil || len(apps) != 1 {
		t.Errorf("%+v, %v", apps, err)
	}
	if w := hub.Writes(); len(w) > 0 {
		t.Errorf("requests %v", w)
	}
}

// A waiting wave is refreshed repeatedly, as an ApplicationSet without Applications only becomes healthy with time, and so are its Applications. A wave of an
// older commit is terminated.
func TestWaitConvergedWave(t *testing.T) {
	for at, want := range map[string]string{newCommit: "refresh", oldCommit: "Terminating"} {
		synctest.Test(t, func(t *testing.T) {
			a, hub, _ := newFake(t, heldBack("OutOfSync", at)+"---"+object("prod-podinfo", oldCommit, "Synced", "Healthy", "")+"---\n"+set(""))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := a.WaitConverged(ctx, engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}}, func(string) {})
				done <- err
			}()
			time.Sleep(2 * time.Second)
			answered := toYAML(t, hub.Get(t, applications, Namespace, "addons").Object)
			hub.patch(t, applications, "addons", unannotate(refreshApplication))
			err := <-done
			var e *lab.Error
			if !errors.As(err, &e) || !strings.Contains(strings.Join(e.Details, "\n"), "applicationset podinfo: progressing") {
				t.Errorf("%v: %q", err, e.Details)
			}
			if w := hub.Writes(); !slices.Contains(w, "patch applications addons") || slices.Contains(w, "patch applications prod-podinfo") != (at == newCommit) {
				t.Errorf("requests %v", w)
			}
			if !strings.Contains(answered, want) {
				t.Errorf("want %s:\n%s", want, answered)
			}
		})
	}
}
