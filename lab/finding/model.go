package finding

// ofModel are the rules of package lint.
func ofModel() []Rule {
	return []Rule{
		{
			BridgeKeyUnread, Warning, "a label or annotation of a cluster is written, and nothing in the files reads it",
			"Someone expects an effect: the key may be misspelt, or its reader gone. Keys with a prefix (`example.com/key`) are for other tools, and not looked at.",
			"Correct the key, or remove it.",
		},
		{
			BridgeKeyTypo, Warning, "a set reads a label or annotation that no cluster has, and that is spelt like one that clusters have",
			"A default or an empty text takes its place.",
			"Correct the key.",
		},
		{
			RefPathIgnored, Warning, "a value file is looked up without the path of the source that `ref` names",
			"`$ref` is the root of the repository. With `ignoreMissingValueFiles`, the file is left out in silence; the path is rendered as manifests besides.",
			"Write the whole path, as in the message, and leave `path` out of the source.",
		},
		{
			ValueFileUnread, Warning, "no application reads a value file of a cluster or environment",
			"`ignoreMissingValueFiles` hides a path that matches no file, and the file is without effect.",
			"Rename the file to one of the paths that are read, or correct the path in the set.",
		},
		{
			OptionalMissing, Warning, "an optional value file, ConfigMap or Secret exists for no cluster",
			"The engine silently leaves it out. A layer that no cluster uses yet is not reported, but one whose top folder does not exist, whose object lacks the key, or whose name is much like " +
				"that of something that nothing reads.",
			"Correct the path or the name, or remove the entry.",
		},
		{
			PinUnused, Warning, "a version is pinned for an environment none of whose clusters has the addon",
			"Nothing installs that version.",
			"Enable the addon on a cluster of the environment, or remove the version.",
		},
		{
			EntryUnmatched, Warning, "an image, a patch or a replacement of a kustomization matches nothing",
			"kustomize is silent about it. It is tried: entries in kustomization.yaml, in an Application's `kustomize` options and in a Kustomization's spec, with all that is built from them.",
			"Correct the name or the target, or remove the entry.",
		},
		{
			ValueUnused, Warning, "no template of the chart uses a value",
			"Helm takes any key, so that a misspelt one is without effect. A key counts as used if the chart's defaults, its schema or any text in it mention it; charts that pass on all values " +
				"or have packed subcharts are not judged.",
			"Correct the key: the chart's values.yaml lists them.",
		},
		{
			LeftoverTemplate, Warning, "a template or variable is left in a rendered object",
			"Names, labels and images with `{{`, `${` or `<no value>` are refused, or wrong. Other fields may contain templates for someone else, and are not looked at.",
			"Set the value, or correct the template.",
		},
		{
			FloatingImage, Warning, "an image has no tag, or `latest`",
			"What runs changes without a commit, differs from node to node, and cannot be rolled back.",
			"Write a version or a digest.",
		},
		{
			FloatingChart, Warning, "the version of a chart is a range",
			"What runs changes without a commit, and differs between clusters.",
			"Write an exact version.",
		},
		{
			HookRecreates, Warning, "a hook is a namespace, a volume or a StatefulSet",
			"The engine deletes a hook before it runs again, with all that it holds. Argo CD runs the hooks of charts at every sync.",
			"Remove the hook's annotations, and order it by a sync wave or `dependsOn`.",
		},
		{
			DeprecatedAPI, Warning, "an API version is deprecated, or removed (an error), in the Kubernetes version of the cluster",
			"The API server refuses objects of a removed version, and the next upgrade removes the deprecated one.",
			"Write the version that the message names.",
		},
		{
			InvalidObject, Error, "an object does not fit its kind",
			"It is held to Kubernetes' own types and validation, and custom resources to the CustomResourceDefinitions on their cluster, with their rules. The API server, or the engine, refuses it; " +
				"an unknown field that is dropped instead is a warning: by Flux of Kubernetes' kinds, and by Argo CD with `Validate=false`.",
			"Correct the field, or the template that writes it.",
		},
		{
			PolicyDenied, Error, "a ValidatingAdmissionPolicy of the estate denies an object",
			"The API server evaluates the policies of its cluster as soon as it has them. Here each object is evaluated as a new one, with Kubernetes' defaults. It is a warning if the binding only warns, " +
				"and a note if it only audits.",
			"Correct the object, or the policy or its binding.",
		},
		{
			PolicyUnknown, Note, "a policy is not evaluated, or not for an object",
			"It asks for what only a cluster knows, such as the user or the labels of a namespace that the estate does not define, or only a program in the cluster evaluates it: Gatekeeper, Kyverno, " +
				"or the owner of a webhook. These are counted by kind. A binding of a policy that the estate has not is one, too.",
			"Try it on a lab: `lab up`, then `lab status`.",
		},
		{
			PlainSecret, Warning, "a Secret's value is in Git as it is",
			"Everyone who can read the repository, and its history, has it. Base64 is not encryption.",
			"Use SealedSecrets, SOPS or External Secrets, and change the value: it is known.",
		},
		{
			SharedObject, Warning, "two applications write the same object",
			"Each undoes what the other has written, and pruning one removes the other's.",
			"Keep the object in one of the two.",
		},
		{
			ReplicasScaled, Warning, "Git and a HorizontalPodAutoscaler or ScaledObject set the number of replicas of a workload",
			"The engine sets what is in Git again, at once or with the next change, and the scaler its own.",
			"Leave `spec.replicas` out, or, for Argo CD, list it under `ignoreDifferences`, with `RespectIgnoreDifferences=true`.",
		},
		{
			PreserveIgnored, Warning, "an ApplicationSet preserves the resources of Applications whose template has the finalizer that deletes them",
			"`preserveResourcesOnDeletion` only leaves out the finalizer that the controller would add: what the Applications deploy is deleted with them.",
			"Remove the finalizer from the template, or `preserveResourcesOnDeletion`.",
		},
		{
			FieldIgnored, Warning, "Argo CD ignores a field of an Application, ApplicationSet or AppProject",
			"Its API server drops a field that it does not know, as it is misspelt, in the wrong place, or came with a later minor; of a Git generator, `directories` count " +
				"before `files`.",
			"Move or correct the field, remove it, or take the minor that has it.",
		},
		{
			DependencyUnmet, Warning, "a dependency of Flux can never be ready",
			"It is suspended, the object itself, one that only this object creates, or waits for this object in turn; that of a ResourceSet, if nothing " +
				"creates it, too. A dependency with a `readyExpr` is not judged.",
			"Resume what it depends on, or remove one of the dependencies.",
		},
		{
			OtherSide, Warning, "what an object of Flux for a remote cluster needs is on the other cluster",
			"With `spec.kubeConfig`, namespaces are needed on the remote cluster, also that in which Helm stores the release, by default the HelmRelease's own. `valuesFrom` and `substituteFrom` are " +
				"read where Flux runs.",
			"Move it to the cluster that the message names.",
		},
		{
			GeneratorOverlap, Warning, "two Git generators match the same file, and make Applications of one source on one destination of it",
			"Both write the same objects, as a pattern matches more than is meant: in the patterns of files, `*` matches `/`, too.",
			"Narrow one of the patterns, or exclude the files from it.",
		},
		{
			IgnoreUnmatched, Warning, "an entry of `ignoreDifferences` matches no object of any Application of its set, which has objects of the kind",
			"The difference that it is for shows, and is undone by self-healing.",
			"Correct the group (empty for core kinds), kind, name or namespace.",
		},
		{
			SyncOptionLevel, Warning, "an object has a sync option of Applications",
			"It has no effect there.",
			"Move it to `spec.syncPolicy.syncOptions` of the Application.",
		},
		{
			InvalidIgnore, Warning, "an ignoring comment names no rule, or no reason",
			"The next reader does not know why, so it ignores nothing.",
			"Write `# lab:ignore CODE reason`.",
		},
		{
			UnusedIgnore, Warning, "an ignoring comment ignores nothing",
			"It would hide the next finding there.",
			"Delete it.",
		},
	}
}
