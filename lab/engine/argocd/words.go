package argocd

import (
	"regexp"

	"homelab/lab/engine/words"
)

// wrapping matches what Argo CD adds to a sync error: the kind of step and the next retry.
var wrapping = regexp.MustCompile(`(?:Failed last sync attempt to \S+: )?one or more [a-z ]+, reason: |\.? Retrying attempt #\d+ at \S+$`)

// cause returns a message of Argo CD without its wrapping, limited to messageLimit.
func cause(message string) string {
	return words.Clip(wrapping.ReplaceAllString(message, ""), messageLimit)
}
