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
	Unassigned          = "unassigned"
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
	FieldIgnored     = "field-ignored"
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
	return append(append(ofFiles(), ofModel()...), Rule{
		Other, Error, "a problem without a rule of its own",
		"lab's libraries report it.",
		"See the message.",
	})
}

// ofFiles are the rules of reading an estate.
func ofFiles() []Rule {
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
			ControlPlanes, Error, "several control planes need an image that is not available",
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
			InvalidRoot, Error, "the root has something that is not a root",
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
			"lab cannot say what it renders to, needs and provides. `lab up` may download it.",
			"Download the chart (`lab charts pull`; `lab bundle build` for one of lab's), or mount a clone of the repository.",
		},
		{
			UnknownOutput, Note, "only the running engine knows what this generates",
			"Pull request, SCM and plugin generators ask services, as do input providers of ResourceSets. No other rule sees what they generate. Nor does lab know what " +
				"is not on this machine, as a branch that was not fetched.",
			"None needed, unless the message names one.",
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
			Unassigned, Warning, "a Kustomization or ResourceSet is outside the namespaces of clusters",
			"Flux applies it and `lab up` waits for it, but what it applies is neither shown nor compared.",
			"Move it to the namespace of its cluster, such as `cluster-hub`.",
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
			"Provide what the message says is missing. What cannot work in a lab needs none.",
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
	}
}
