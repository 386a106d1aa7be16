// Package argo has the names of Argo CD's API that lab reads in manifests, whichever engine it installs.
package argo

// Namespace is the usual namespace of Argo CD.
const Namespace = "argocd"

// AppsChart is the chart that makes Applications and ApplicationSets of its values.
const AppsChart = "argocd-apps"

// TerraformApplication begins the resources that make Applications and ApplicationSets with Terraform's provider.
const TerraformApplication = "argocd_application"

// Group is the prefix of the API versions of Argo CD's kinds.
const Group = "argoproj.io/"

// Prefix is that of Argo CD's labels and annotations.
const Prefix = "argocd.argoproj.io/"

// Labels and annotations.
const (
	SecretType  = Prefix + "secret-type" // label of a Secret
	SyncWave    = Prefix + "sync-wave"
	SyncOptions = Prefix + "sync-options"
	Hook        = Prefix + "hook"

	HookDeletePolicy = Prefix + "hook-delete-policy"

	IgnoreHealth = Prefix + "ignore-healthcheck"

	// annotations of what it has applied
	TrackingID     = Prefix + "tracking-id"
	InstallationID = Prefix + "installation-id"
)

// Manager is its field manager when it applies on the server's side.
const Manager = "argocd-controller"

// WriteBackMethod is the annotation of an Application that says how Argo CD Image Updater keeps what it finds.
// https://argocd-image-updater.readthedocs.io/en/stable/basics/update-methods/
const WriteBackMethod = "argocd-image-updater.argoproj.io/write-back-method"

// SecretTypeCluster is the value of SecretType on registrations of clusters.
const SecretTypeCluster = "cluster"

// Finalizer deletes an Application's resources with it.
const Finalizer = "resources-finalizer.argocd.argoproj.io"

// OverrideFile returns the name of the file in a source's folder that sets its options for an Application, or for all if app is empty.
// https://argo-cd.readthedocs.io/en/stable/user-guide/parameters/#store-overrides-in-git
func OverrideFile(app string) string {
	if app == "" {
		return ".argocd-source.yaml"
	}
	return ".argocd-source-" + app + ".yaml"
}

// SkipFile marks files that Argo CD does not read as manifests.
const SkipFile = "+argocd:skip-file-rendering"

// Affix begins the names of an installation's objects.
const Affix = "argocd-"

// Installation lists objects that every installation has, as "KIND/NAME", whatever its release is called.
func Installation() []string {
	return []string{
		"ConfigMap/argocd-cm", "ConfigMap/argocd-cmd-params-cm", "Secret/argocd-secret", "Deployment/argocd-server", "Deployment/argocd-repo-server",
		"StatefulSet/argocd-application-controller", "Deployment/argocd-applicationset-controller",
	}
}

// Sources lists parts of the addresses from which Argo CD's own manifests are included.
func Sources() []string {
	return []string{"/argoproj/argo-cd", "/argoproj-labs/argocd-autopilot/manifests"}
}
