// Package verb implements the steps of scenarios, one file per verb.
package verb

import "homelab/lab/scenario"

// All returns the verbs in the order of the documentation.
func All() []scenario.Verb {
	return []scenario.Verb{
		{Name: "expect", Doc: "waits until something is so, and fails when it is not in time", New: func() scenario.Action { return &expect{} }},
		{Name: "commit", Doc: "commits to the forge, as somebody", New: func() scenario.Action { return &commit{} }},
		{Name: "promote", Doc: "carries an addon's version to a later environment, if the earlier one is healthy", New: func() scenario.Action { return &promotion{} }},
		{Name: "label", Doc: "changes what a cluster says of itself: its labels, its metadata, its cloud", New: func() scenario.Action { return &label{} }},
		{Name: "patch", Doc: "edits an object in a cluster, as a user with kubectl edit would", New: func() scenario.Action { return &patch{} }},
		{Name: "apply", Doc: "applies a manifest to a cluster, as a user with kubectl apply would", New: func() scenario.Action { return &apply{} }},
		{Name: "delete", Doc: "deletes an object from a cluster, as a user with kubectl delete would", New: func() scenario.Action { return &remove{} }},
		{Name: "pause", Doc: "freezes a cluster, as if its network were gone", New: func() scenario.Action { return &pause{} }},
		{Name: "resume", Doc: "lets a paused cluster go on", New: func() scenario.Action { return &resume{} }},
		{Name: "switch", Doc: "has another engine take the place of the lab's, until the story ends", New: func() scenario.Action { return &switching{} }},
		{Name: "wait", Doc: "lets time pass", New: func() scenario.Action { return &wait{} }},
	}
}

// changes marks a mutating action.
type changes struct{}

func (changes) Changes() bool { return true }
