package finding

// The codes of the rules: stable, as people write them in files and CI.
const (
	NotYAML             = "not-yaml"
	InvalidField        = "invalid-field"
	UnreadableFile      = "unreadable-file"
	LeavesRepository    = "leaves-repository"
	NotRead             = "not-read"
	HubCount            = "hub-count"
	ControlPlanes       = "control-planes"
	AddressTaken        = "address-taken"
	UnknownEnvironment  = "unknown-environment"
	UnknownAddon        = "unknown-addon"
	InvalidAddon        = "invalid-addon"
	InvalidValues       = "invalid-values"
	InvalidCloud        = "invalid-cloud"
	InvalidBridgeKey    = "invalid-bridge-key"
	BridgeKeyMissing    = "bridge-key-missing"
	InvalidMount        = "invalid-mount"
	KubeconfigSecret    = "kubeconfig-secret"
	EngineVersion       = "engine-version"
	InvalidRoot         = "invalid-root"
	InvalidSet          = "invalid-set"
	InvalidApplication  = "invalid-application"
	InvalidFlux         = "invalid-flux"
	DuplicateName       = "duplicate-name"
	DuplicateObject     = "duplicate-object"
	NameTooLong         = "name-too-long"
	AddonUnselected     = "addon-unselected"
	UnknownDestination  = "unknown-destination"
	ProjectMissing      = "project-missing"
	NotPermitted        = "not-permitted"
	UnwatchedNamespace  = "unwatched-namespace"
	PathMissing         = "path-missing"
	SourceMissing       = "source-missing"
	ValueFileMissing    = "value-file-missing"
	CannotRender        = "cannot-render"
	NotHere             = "not-here"
	UnknownOutput       = "unknown-output"
	DependencyMissing   = "dependency-missing"
	InvalidDependency   = "invalid-dependency"
	OrderDiffers        = "order-differs"
	InvalidSubstitution = "invalid-substitution"
	VariableUnset       = "variable-unset"
	LiteralVariable     = "literal-variable"
	AppliesNothing      = "applies-nothing"
	ReachedTwice        = "reached-twice"
	GeneratedStale      = "generated-stale"
	Unsyncable          = "unsyncable"
	UnstableValue       = "unstable-value"
	LeftOut             = "left-out"
	PullsItself         = "pulls-itself"
	Untrusted           = "untrusted"

	// found in the model by package lint
	BridgeKeyUnread  = "bridge-key-unread"
	BridgeKeyTypo    = "bridge-key-misspelt"
	RefPathIgnored   = "ref-path-ignored"
	ValueFileUnread  = "value-file-unread"
	OptionalMissing  = "optional-missing"
	PinUnused        = "pin-unused"
	EntryUnmatched   = "entry-unmatched"
	ValueUnused      = "value-unused"
	LeftoverTemplate = "leftover-template"
	FloatingImage    = "floating-image"
	FloatingChart    = "floating-chart"
	HookRecreates    = "hook-recreates"
	DeprecatedAPI    = "deprecated-api"
	InvalidObject    = "invalid-object"
	PolicyDenied     = "policy-denied"
	PolicyUnknown    = "policy-unknown"
	PlainSecret      = "plain-secret"
	SharedObject     = "shared-object"
	ReplicasScaled   = "replicas-scaled"
	PreserveIgnored  = "preserve-ignored"
	DependencyUnmet  = "dependency-unmet"
	OtherSide        = "other-side"
	GeneratorOverlap = "generator-overlap"
	IgnoreUnmatched  = "ignore-differences-unmatched"
	SyncOptionLevel  = "sync-option-level"
	InvalidIgnore    = "invalid-ignore"
	UnusedIgnore     = "unused-ignore"

	Other = "other"
)

// Rules returns all rules, in the order in which lab lint prints them.
func Rules() []Rule {
	return []Rule{
		{
			NotYAML, Error, "a file is not YAML, or is more than a file of an estate may be",
			"The engine would refuse the file, or read something else than is meant: of duplicate keys, one counts.",
			"Correct the line. Limits are 1 MiB, 100 documents and 50,000 values a file.",
		},
		{
			InvalidField, Error, "a field is unknown, missing, or of a wrong type",
			"What is misspelt has no effect.",
			"Take the key or the value that the message suggests.",
		},
		{
			UnreadableFile, Error, "a file that is needed does not exist or cannot be read",
			"lab pushes and reads the same files; a link that leads out of the repository exists on one machine only.",
			"Create the file, or correct its name, its permissions or the link.",
		},
		{
			LeavesRepository, Error, "a path leads out of its repository",
			"The engine refuses it.",
			"Start paths at the root of the repository.",
		},
		{
			NotRead, Warning, "nothing reads a file or an ApplicationSet",
			"Its author expects an effect.",
			"Rename it as the message says, let the root sync it, or delete it.",
		},
		{
			HubCount, Error, "the estate has no hub, or several",
			"The engine runs on the hub.",
			"Set `role: hub` in exactly one cluster.yaml.",
		},
		{
			ControlPlanes, Error, "several control planes need an image that is not at hand",
			"kind puts a load balancer in front of them.",
			"Use one control plane, or `--images registry`.",
		},
		{
			AddressTaken, Error, "two clusters have the same address or host port",
			"The engine would take them for one, or the second cannot start.",
			"Change one of them.",
		},
		{
			UnknownEnvironment, Error, "a cluster or a version names no environment of the estate",
			"Value layers and metadata come from the environment.",
			"Correct the name, or add `environments/NAME/environment.yaml`.",
		},
		{
			UnknownAddon, Error, "a cluster or a value file names no addon",
			"No set selects the label, and no chart reads the values.",
			"Correct the name, or add the addon.",
		},
		{
			InvalidAddon, Error, "an addon's folder has what cannot be one addon",
			"For Flux, an addon is HelmReleases or manifests.",
			"Split the addon as the message says.",
		},
		{
			InvalidValues, Error, "a value file is not a mapping",
			"Helm refuses it.",
			"Write keys with values.",
		},
		{
			InvalidCloud, Error, "a cloud setting is not one that the provider could have",
			"Addons parse account numbers, regions and ids.",
			"Correct it, or leave it out: lab makes one up.",
		},
		{
			InvalidBridgeKey, Error, "a label or annotation cannot be on a cluster Secret",
			"Kubernetes refuses it, or the engine sets it itself.",
			"Follow the limits of keys and values, and leave out the engine's own.",
		},
		{
			BridgeKeyMissing, Error, "a set reads a label or annotation that no one writes for a cluster that it selects",
			"With `missingkey=error` the whole set generates nothing; without, the text is `<no value>`.",
			"Set the key in `spec.metadata` or `spec.labels` of the cluster or its environment.",
		},
		{
			InvalidMount, Error, "a mounted repository cannot be opened",
			"lab reads it from its folder.",
			"Clone it there.",
		},
		{
			KubeconfigSecret, Error, "two Secrets with kubeconfigs are the same, or nobody would read one",
			"The last one to be written wins.",
			"Remove one of the two.",
		},
		{
			EngineVersion, Note, "lab does not know this version of the engine",
			"It expands and renders as the nearest version does, which may differ.",
			"Pin a version that `lab version` lists.",
		},
		{
			InvalidRoot, Error, "the root has something that is no root",
			"lab applies the root itself.",
			"Move it into a folder that the root syncs.",
		},
		{
			InvalidSet, Error, "an ApplicationSet generates nothing, because the controller refuses it",
			"One fault stops all of its Applications.",
			"Correct the line: the message is that of the controller.",
		},
		{
			InvalidApplication, Error, "Argo CD refuses an Application",
			"It is not created, or not synced.",
			"Correct the template or the parameter at the position.",
		},
		{
			InvalidFlux, Error, "Flux refuses an object, or cannot follow it",
			"The API server or the controller rejects it.",
			"Correct the field at the position.",
		},
		{
			DuplicateName, Error, "two objects of one kind have the same name",
			"The engine knows them by their name: one overwrites the other.",
			"Rename one. The message has both places.",
		},
		{
			DuplicateObject, Warning, "an object is written twice",
			"The last one counts, or the release is refused.",
			"Remove one of the two.",
		},
		{
			NameTooLong, Error, "a name or a label is too long",
			"Host names and the values of labels end at 63 characters, and controllers append to the names of StatefulSets and CronJobs (52).",
			"Shorten the part of the name that you choose: the message has where the name and the application come from.",
		},
		{
			AddonUnselected, Error, "a cluster enables an addon that no generator selects it for",
			"The label has no effect.",
			"Let the set's generator select the label, or disable the addon.",
		},
		{
			UnknownDestination, Error, "an Application goes to a cluster that the estate does not have",
			"Argo CD cannot sync it.",
			"Name a cluster of the estate.",
		},
		{
			ProjectMissing, Error, "an Application's project does not exist",
			"Argo CD does not sync it.",
			"Add an AppProject of that name to a folder that the root syncs.",
		},
		{
			NotPermitted, Error, "an Application's project does not permit it",
			"Argo CD does not sync it.",
			"Permit its source and destination, or give it another project.",
		},
		{
			UnwatchedNamespace, Warning, "an object of Argo CD is in a namespace that the engine does not watch",
			"It has no effect.",
			"Move it to the engine's namespace.",
		},
		{
			PathMissing, Error, "a folder or file that a source names does not exist",
			"The engine reports an error instead of applying it.",
			"Create it, or correct the path.",
		},
		{
			SourceMissing, Error, "a chart's source does not exist",
			"helm-controller waits for it without end.",
			"Add the source to the release's folder.",
		},
		{
			ValueFileMissing, Error, "a value file that a chart needs does not exist",
			"Argo CD does not render the chart. With a path outside of its sources it would not count.",
			"Create the file, or set `ignoreMissingValueFiles: true` if it is optional.",
		},
		{
			CannotRender, Error, "a chart, kustomization or folder cannot be rendered",
			"The engine reports the same error, and applies nothing of it.",
			"Correct what the message names.",
		},
		{
			NotHere, Note, "a chart or repository is not on this machine",
			"lab cannot say what it renders to. `lab up` may download it.",
			"Build or download the chart (`lab bundle build`), or mount a clone of the repository.",
		},
		{
			UnknownOutput, Note, "only the running engine knows what this generates",
			"Pull request, SCM and plugin generators ask services, as do input providers of ResourceSets. No other rule sees what they generate.",
			"None needed.",
		},
		{
			DependencyMissing, Error, "a cluster has an addon without the addon that it needs",
			"It waits without end.",
			"Enable both, or declare the dependency optional.",
		},
		{
			InvalidDependency, Error, "a dependency names nothing, or addons depend on each other in a circle",
			"Flux waits without end.",
			"Correct the name, or remove one of the dependencies.",
		},
		{
			OrderDiffers, Warning, "the two engines start addons in different orders",
			"What works with one engine may fail with the other.",
			"Set the sync wave or `dependsOn` that the message gives.",
		},
		{
			InvalidSubstitution, Error, "Flux cannot substitute variables in an object, or the result is not valid",
			"`${array[@]}` of a shell script is read as a variable; numbers and booleans must be quoted where text is required.",
			"Write `$${...}` for a literal `${...}`, or quote the variable.",
		},
		{
			VariableUnset, Error, "a variable of Flux has neither a value nor a default",
			"Flux replaces it by nothing, also in shell scripts.",
			"Set it in `spec.metadata`, or give a default: `${name:=value}`; for a script, write `$${name}`.",
		},
		{
			LiteralVariable, Warning, "a variable stays as it is written",
			"Without any variables Flux does not substitute, so that defaults do not apply either.",
			"Set any variable in `spec.postBuild`, or `substituteStrategy: Always`.",
		},
		{
			AppliesNothing, Error, "a Kustomization applies nothing",
			"Flux stops at its first error.",
			"Fix what the message names.",
		},
		{
			ReachedTwice, Error, "a cluster's Kustomization is reached from the root of another",
			"Two engines would apply the same.",
			"In the standalone shape, a cluster's root reads its own folder only.",
		},
		{
			GeneratedStale, Error, "a file of `lab generate` is missing, stale or left over",
			"Flux would apply an older state of the estate.",
			"Run `lab generate`.",
		},
		{
			Unsyncable, Warning, "a folder cannot be synced, as nothing defines a kind in it",
			"Argo CD applies no object of a folder in which one has an unknown kind.",
			"Exclude the object, or install its definition before.",
		},
		{
			UnstableValue, Warning, "a value differs each time that it is rendered",
			"Argo CD is never in sync, and applies the new value again and again.",
			"Write the value down, or list the field under `ignoreDifferences`.",
		},
		{
			LeftOut, Warning, "lab does not wait for an application, or doubts that it converges",
			"It cannot work here, or waits for something that nothing in the files provides.",
			"Provide what the message says.",
		},
		{
			PullsItself, Note, "lab cannot load images into a cluster that it did not create",
			"The cluster pulls them itself.",
			"None needed.",
		},
		{
			Untrusted, Note, "the estate wants access outside of the lab",
			"`lab up` asks before it grants it.",
			"See `lab up --dry-run`.",
		},
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
			ValueFileUnread, Warning, "no application reads a value file, though its cluster or environment has the addon",
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
			"It asks for what only a cluster knows, such as the user or the labels of a namespace that the estate does not define, or only a program in the cluster evaluates it.",
			"Try it on a lab: `lab up`, then `lab status`.",
		},
		{
			PlainSecret, Warning, "a Secret's value is in Git as it is",
			"Everyone who can read the repository, and its history, has it. Base64 is no encryption.",
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
			DependencyUnmet, Warning, "a dependency of Flux can never be ready",
			"It is suspended, the object itself, one that only this object creates, or waits for this object in turn. A dependency with a `readyExpr` is not judged.",
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
		{
			Other, Error, "a problem without a rule of its own",
			"lab's libraries report it.",
			"See the message.",
		},
	}
}
