package argocd

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"homelab/lab/engine/words"
)

// wrapping matches what Argo CD adds to a sync error: the kind of step and the next retry.
var wrapping = regexp.MustCompile(`(?:Failed last sync attempt to \S+: )?one or more [a-z ]+, reason: |\.? Retrying attempt #\d+ at \S+$`)

// cause returns a message of Argo CD without its wrapping, limited to messageLimit.
func cause(message string) string {
	return words.Clip(wrapping.ReplaceAllString(message, ""), messageLimit)
}

// message returns why an Application is not in sync or not healthy, or "" if it is both.
func (a application) message() string {
	if a.terminating() {
		for _, c := range a.Status.Conditions {
			if c.Type == "DeletionError" {
				return "is being removed: " + cause(c.Message)
			}
		}
		return "is being removed"
	}
	if a.Status.Sync.Status == "Synced" && a.Status.Health.Status == "Healthy" {
		return ""
	}
	for _, c := range a.Status.Conditions {
		// Other conditions (OrphanedResourceWarning, ...) do not explain why it has not converged.
		if strings.HasSuffix(c.Type, "Error") {
			return cause(c.Message)
		}
	}
	if failure := cmp.Or(a.failure(), a.Failed); failure != "" {
		return cause(failure)
	}
	if bad := a.unhealthy(); len(bad) > 0 {
		return words.Clip(bad[0].trouble(), messageLimit)
	}
	if a.Status.Health.Message != "" {
		return words.Clip(a.Status.Health.Message, messageLimit)
	}
	if a.Status.OperationState.Phase == "Running" {
		return "syncing: " + cmp.Or(cause(a.Status.OperationState.Message), "started")
	}
	if a.Status.Sync.Status == "OutOfSync" {
		return a.difference()
	}
	if a.Status.Sync.Status == "" {
		return "not compared yet"
	}
	return ""
}

// messageLimit bounds a message of Argo CD, which may contain a whole Helm error, to fit into a table or a JSON line.
const messageLimit = 300

// unhealthy returns the unhealthy objects, progressing ones last.
func (a application) unhealthy() []resource {
	var bad, onTheWay []resource
	for _, r := range a.Status.Resources {
		switch {
		case r.Health == nil || r.Health.Status == "Healthy" || r.Health.Status == "":
		case r.Health.Status == "Progressing":
			onTheWay = append(onTheWay, r)
		default:
			bad = append(bad, r)
		}
	}
	return append(bad, onTheWay...)
}

func (r resource) title() string { return strings.ToLower(r.Kind) + " " + r.Name }

// trouble describes an unhealthy object.
func (r resource) trouble() string {
	message := strings.TrimPrefix(r.Health.Message, fmt.Sprintf("%s %q ", r.Kind, r.Name)) // already in the title
	return r.title() + ": " + cmp.Or(message, strings.ToLower(r.Health.Status))
}

// difference names the objects that differ from Git.
func (a application) difference() string {
	var names []string
	for _, r := range a.Status.Resources {
		if r.Status == "OutOfSync" {
			names = append(names, r.title())
		}
	}
	manual := ""
	if !a.automated() {
		manual = "; automated sync is off"
	}
	switch len(names) {
	case 0:
		return "differs from Git" + manual
	case 1:
		return names[0] + " differs from Git" + manual
	}
	return fmt.Sprintf("%s and %d more differ from Git%s", names[0], len(names)-1, manual)
}

// failure returns why the last attempt of a sync failed, or "". The next attempt clears it.
func (a application) failure() string {
	if p := a.Status.OperationState.Phase; p == "Failed" || p == "Error" || a.retries() {
		return a.Status.OperationState.Message
	}
	return ""
}
