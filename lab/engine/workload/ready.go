package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"homelab/lab"
	"homelab/lab/engine/words"
)

// Engine is what AwaitEngine waits for.
type Engine struct {
	Name      string // "argo cd 3.4.1", for users
	Namespace string
	Workloads []string      // as for Wait
	Affix     string        // common part of the workloads' names, omitted in messages
	Within    time.Duration // time limit
}

// AwaitEngine waits until all workloads of an engine are ready, with pods of the present ServiceAccounts. On timeout, the error has exit code lab.ExitTimeout, and
// lab.ExitFailed if a container keeps failing; it describes the workloads and their pods.
func AwaitEngine(ctx context.Context, client kubernetes.Interface, e Engine, p lab.Progress) error {
	within, cancel := context.WithTimeout(ctx, e.Within)
	defer cancel()
	short := func(s string) string { return strings.ReplaceAll(s, e.Affix, "") }
	pods, err := podsWithStaleToken(within, client, e.Namespace, e.Workloads)
	if err == nil {
		err = restart(within, client, pods, func(d string) { p(e.Name + ": " + d) })
	}
	if err != nil {
		return err
	}
	err = Wait(within, client, e.Namespace, e.Workloads, func(d string) { p(e.Name + ": " + short(d)) })
	var late *NotReady
	if !errors.As(err, &late) {
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	failed := &lab.Error{
		Exit: lab.ExitTimeout, Code: "engine_not_ready",
		Message: fmt.Sprintf("%s is not ready after %s: %s", e.Name, lab.WholeSeconds(late.Waited), short(Sentence(late.Waiting))),
		Cure:    "run lab up again to continue waiting; lab diagnose collects details",
	}
	if late.Loop != nil {
		failed.Exit, failed.Code = lab.ExitFailed, "engine_failing"
		failed.Message = fmt.Sprintf("%s: %s", e.Name, short(late.Loop.String()))
		failed.Cure = "fix the cause and run lab up again; lab diagnose collects details"
	}
	for _, s := range late.Waiting {
		failed.Details = append(failed.Details, words.Wrap(short(s.String()), words.Width)...)
	}
	for _, s := range late.Pods {
		failed.Details = append(failed.Details, words.Wrap(s, words.Width)...)
	}
	return failed
}
