// Package verb implements the steps of scenarios, one file per verb.
package verb

import "homelab/lab/scenario"

// All returns the verbs in the order of the documentation.
func All() []scenario.Verb {
	return []scenario.Verb{
		{Name: "expect", Doc: "waits for a state, and fails after a timeout", New: func() scenario.Action { return &expect{} }},
		{Name: "commit", Doc: "commits to the forge", New: func() scenario.Action { return &commit{} }},
		{Name: "pull-request", Doc: "opens, comments on, judges, merges or closes a pull request, or waits for one", New: func() scenario.Action { return &pullRequest{} }},
		{Name: "promote", Doc: "promotes an addon's version to a later environment, if the earlier one is healthy", New: func() scenario.Action { return &promotion{} }},
		{Name: "label", Doc: "changes a cluster's labels, metadata or cloud", New: func() scenario.Action { return &label{} }},
		{Name: "patch", Doc: "edits an object in a cluster, like kubectl edit", New: func() scenario.Action { return &patch{} }},
		{Name: "apply", Doc: "applies a manifest to a cluster, like kubectl apply", New: func() scenario.Action { return &apply{} }},
		{Name: "delete", Doc: "deletes an object from a cluster, like kubectl delete", New: func() scenario.Action { return &remove{} }},
		{Name: "pause", Doc: "freezes a cluster, as if its network were gone", New: func() scenario.Action { return &pause{} }},
		{Name: "resume", Doc: "resumes a paused cluster, or connects one that was disconnected", New: func() scenario.Action { return &resume{} }},
		{Name: "reboot", Doc: "reboots nodes of a cluster", New: func() scenario.Action { return &reboot{} }},
		{Name: "partition", Doc: "disconnects a cluster from the lab's network", New: func() scenario.Action { return &partition{} }},
		{Name: "request", Doc: "sends an HTTP request, and expects an answer", New: func() scenario.Action { return &request{} }},
		{Name: "repository", Doc: "creates a private repository on the forge, until the story ends", New: func() scenario.Action { return &repository{} }},
		{Name: "credentials", Doc: "gives an engine the credentials of such a repository, or something else the bot's", New: func() scenario.Action { return &credentials{} }},
		{Name: "seal", Doc: "encrypts values for a SealedSecret, with its controller's certificate", New: func() scenario.Action { return &sealing{} }},
		{Name: "age-key", Doc: "makes a key pair of age, as Flux decrypts with", New: func() scenario.Action { return &ageKey{} }},
		{Name: "push-image", Doc: "pushes an image to the lab's registry, until the story ends", New: func() scenario.Action { return &pushImage{} }},
		{Name: "switch", Doc: "replaces the lab's engine until the story ends", New: func() scenario.Action { return &switching{} }},
		{Name: "upgrade", Doc: "brings up the engine with other Helm values until the story ends, and reports what that changed", New: func() scenario.Action { return &upgrade{} }},
		{Name: "renew", Doc: "removes a cluster and creates it again, as lab up --recreate does; play it before what changes Git", New: func() scenario.Action { return &renew{} }},
		{Name: "wait", Doc: "waits for a fixed time", New: func() scenario.Action { return &wait{} }},
	}
}
