package apiserver

import (
	"fmt"
	"reflect"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	autoscalingvalidation "k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	core "k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/node"
	nodevalidation "k8s.io/kubernetes/pkg/apis/node/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingvalidation "k8s.io/kubernetes/pkg/apis/scheduling/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
)

// kind are the rules of a kind. Options are those of its strategy in k8s.io/kubernetes/pkg/registry.
type kind struct {
	create  func(o runtime.Object) field.ErrorList
	update  func(o, old runtime.Object) field.ErrorList
	prepare func(o runtime.Object)      // sets what the API server sets before it validates
	stored  func(o, old runtime.Object) // sets what controllers have set by then
}

func of[T runtime.Object](create func(T) field.ErrorList, update func(T, T) field.ErrorList) kind {
	return kind{
		create:  func(o runtime.Object) field.ErrorList { return create(o.(T)) },
		update:  func(o, old runtime.Object) field.ErrorList { return update(o.(T), old.(T)) },
		prepare: func(runtime.Object) {},
	}
}

func (k kind) preparing(prepare func(runtime.Object)) kind {
	k.prepare = prepare
	return k
}

func (k kind) keeping(stored func(o, old runtime.Object)) kind {
	k.stored = stored
	return k
}

// template are the options for a template of pods.
func template(is, was *core.PodTemplateSpec) corevalidation.PodValidationOptions {
	return podutil.GetValidationOptionsFromPodTemplate(is, was)
}

var kinds = map[schema.GroupKind]kind{
	core.Kind("Pod"): of(
		func(o *core.Pod) field.ErrorList { return corevalidation.ValidatePodCreate(o, podOptions(o, nil)) },
		func(o, old *core.Pod) field.ErrorList {
			return corevalidation.ValidatePodUpdate(o, old, podOptions(o, old))
		},
	),
	core.Kind("PodTemplate"): of(
		func(o *core.PodTemplate) field.ErrorList {
			return corevalidation.ValidatePodTemplate(o, template(&o.Template, nil))
		},
		func(o, old *core.PodTemplate) field.ErrorList {
			return corevalidation.ValidatePodTemplateUpdate(o, old, template(&o.Template, &old.Template))
		},
	),
	core.Kind("Service"):        of(corevalidation.ValidateServiceCreate, corevalidation.ValidateServiceUpdate).preparing(addresses).keeping(allocated),
	core.Kind("Secret"):         of(corevalidation.ValidateSecret, corevalidation.ValidateSecretUpdate),
	core.Kind("ConfigMap"):      of(corevalidation.ValidateConfigMap, corevalidation.ValidateConfigMapUpdate),
	core.Kind("Namespace"):      of(corevalidation.ValidateNamespace, corevalidation.ValidateNamespaceUpdate),
	core.Kind("ServiceAccount"): of(corevalidation.ValidateServiceAccount, corevalidation.ValidateServiceAccountUpdate),
	core.Kind("Endpoints"):      of(corevalidation.ValidateEndpointsCreate, corevalidation.ValidateEndpointsUpdate),
	core.Kind("LimitRange"): of(corevalidation.ValidateLimitRange, func(o, _ *core.LimitRange) field.ErrorList {
		return corevalidation.ValidateLimitRange(o)
	}),
	core.Kind("ResourceQuota"): of(corevalidation.ValidateResourceQuota, corevalidation.ValidateResourceQuotaUpdate),
	core.Kind("PersistentVolumeClaim"): of(
		func(o *core.PersistentVolumeClaim) field.ErrorList {
			return corevalidation.ValidatePersistentVolumeClaim(o, corevalidation.ValidationOptionsForPersistentVolumeClaim(o, nil))
		},
		func(o, old *core.PersistentVolumeClaim) field.ErrorList {
			return corevalidation.ValidatePersistentVolumeClaimUpdate(o, old, corevalidation.ValidationOptionsForPersistentVolumeClaim(o, old))
		},
	).keeping(bound),
	core.Kind("PersistentVolume"): of(
		func(o *core.PersistentVolume) field.ErrorList {
			return corevalidation.ValidatePersistentVolume(o, corevalidation.ValidationOptionsForPersistentVolume(o, nil))
		},
		func(o, old *core.PersistentVolume) field.ErrorList {
			opts := corevalidation.ValidationOptionsForPersistentVolume(o, old)
			return append(corevalidation.ValidatePersistentVolume(o, opts), corevalidation.ValidatePersistentVolumeUpdate(o, old, opts)...)
		},
	),

	apps.Kind("Deployment"): of(
		func(o *apps.Deployment) field.ErrorList {
			return appsvalidation.ValidateDeployment(o, template(&o.Spec.Template, nil))
		},
		func(o, old *apps.Deployment) field.ErrorList {
			return append(appsvalidation.ValidateDeploymentUpdate(o, old, template(&o.Spec.Template, &old.Spec.Template)), selector(o.Spec.Selector, old.Spec.Selector)...)
		},
	),
	apps.Kind("ReplicaSet"): of(
		func(o *apps.ReplicaSet) field.ErrorList {
			return appsvalidation.ValidateReplicaSet(o, template(&o.Spec.Template, nil))
		},
		func(o, old *apps.ReplicaSet) field.ErrorList {
			return append(appsvalidation.ValidateReplicaSetUpdate(o, old, template(&o.Spec.Template, &old.Spec.Template)), selector(o.Spec.Selector, old.Spec.Selector)...)
		},
	),
	apps.Kind("DaemonSet"): of(
		func(o *apps.DaemonSet) field.ErrorList {
			return appsvalidation.ValidateDaemonSet(o, template(&o.Spec.Template, nil))
		},
		func(o, old *apps.DaemonSet) field.ErrorList {
			return append(appsvalidation.ValidateDaemonSetUpdate(o, old, template(&o.Spec.Template, &old.Spec.Template)), selector(o.Spec.Selector, old.Spec.Selector)...)
		},
	).keeping(generation),
	apps.Kind("StatefulSet"): of(
		func(o *apps.StatefulSet) field.ErrorList {
			return appsvalidation.ValidateStatefulSet(o, appsvalidation.StatefulSetValidationOptions{}, template(&o.Spec.Template, nil))
		},
		func(o, old *apps.StatefulSet) field.ErrorList {
			opts := appsvalidation.StatefulSetValidationOptions{
				AllowInvalidServiceName:     true,
				SkipValidatePodTemplateSpec: apiequality.Semantic.DeepEqual(o.Spec.Template, old.Spec.Template), SkipValidateVolumeClaimTemplates: true,
			}
			return appsvalidation.ValidateStatefulSetUpdate(o, old, opts, template(&o.Spec.Template, &old.Spec.Template))
		},
	),

	batch.Kind("Job"): of(
		func(o *batch.Job) field.ErrorList { return batchvalidation.ValidateJobCreate(o, jobOptions(o, nil)) },
		func(o, old *batch.Job) field.ErrorList {
			return batchvalidation.ValidateJobUpdate(o, old, jobOptions(o, old))
		},
	).preparing(selected),
	batch.Kind("CronJob"): of(
		func(o *batch.CronJob) field.ErrorList {
			return batchvalidation.ValidateCronJobCreate(o, template(&o.Spec.JobTemplate.Spec.Template, nil))
		},
		func(o, old *batch.CronJob) field.ErrorList {
			return batchvalidation.ValidateCronJobUpdate(o, old, template(&o.Spec.JobTemplate.Spec.Template, &old.Spec.JobTemplate.Spec.Template))
		},
	),

	networking.Kind("Ingress"):      of(networkingvalidation.ValidateIngressCreate, networkingvalidation.ValidateIngressUpdate),
	networking.Kind("IngressClass"): of(networkingvalidation.ValidateIngressClass, networkingvalidation.ValidateIngressClassUpdate),
	networking.Kind("NetworkPolicy"): of(
		func(o *networking.NetworkPolicy) field.ErrorList {
			return networkingvalidation.ValidateNetworkPolicy(o, networkingvalidation.ValidationOptionsForNetworking(o, nil))
		},
		func(o, old *networking.NetworkPolicy) field.ErrorList {
			return networkingvalidation.ValidateNetworkPolicyUpdate(o, old, networkingvalidation.ValidationOptionsForNetworking(o, old))
		},
	),

	rbac.Kind("Role"):        of(rbacvalidation.ValidateRole, rbacvalidation.ValidateRoleUpdate),
	rbac.Kind("RoleBinding"): of(rbacvalidation.ValidateRoleBinding, rbacvalidation.ValidateRoleBindingUpdate),
	rbac.Kind("ClusterRole"): of(
		func(o *rbac.ClusterRole) field.ErrorList {
			return rbacvalidation.ValidateClusterRole(o, rbacvalidation.ClusterRoleValidationOptions{})
		},
		func(o, old *rbac.ClusterRole) field.ErrorList {
			return rbacvalidation.ValidateClusterRoleUpdate(o, old, rbacvalidation.ClusterRoleValidationOptions{})
		},
	),
	rbac.Kind("ClusterRoleBinding"): of(rbacvalidation.ValidateClusterRoleBinding, rbacvalidation.ValidateClusterRoleBindingUpdate),

	policy.Kind("PodDisruptionBudget"): of(
		func(o *policy.PodDisruptionBudget) field.ErrorList {
			return policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{})
		},
		func(o, _ *policy.PodDisruptionBudget) field.ErrorList {
			return policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{})
		},
	),
	autoscaling.Kind("HorizontalPodAutoscaler"): of(
		func(o *autoscaling.HorizontalPodAutoscaler) field.ErrorList {
			return autoscalingvalidation.ValidateHorizontalPodAutoscaler(o, scalerOptions)
		},
		func(o, old *autoscaling.HorizontalPodAutoscaler) field.ErrorList {
			return autoscalingvalidation.ValidateHorizontalPodAutoscalerUpdate(o, old, scalerOptions)
		},
	),
	storage.Kind("StorageClass"): of(storagevalidation.ValidateStorageClass, func(o, old *storage.StorageClass) field.ErrorList {
		return append(storagevalidation.ValidateStorageClass(o), storagevalidation.ValidateStorageClassUpdate(o, old)...)
	}),
	storage.Kind("CSIDriver"):        of(storagevalidation.ValidateCSIDriver, storagevalidation.ValidateCSIDriverUpdate),
	scheduling.Kind("PriorityClass"): of(schedulingvalidation.ValidatePriorityClass, schedulingvalidation.ValidatePriorityClassUpdate),
	node.Kind("RuntimeClass"):        of(nodevalidation.ValidateRuntimeClass, nodevalidation.ValidateRuntimeClassUpdate),
}

func podOptions(o, old *core.Pod) corevalidation.PodValidationOptions {
	var opts corevalidation.PodValidationOptions
	if old == nil {
		opts = podutil.GetValidationOptionsFromPodSpecAndMeta(&o.Spec, nil, &o.ObjectMeta, nil)
	} else {
		opts = podutil.GetValidationOptionsFromPodSpecAndMeta(&o.Spec, &old.Spec, &o.ObjectMeta, &old.ObjectMeta)
	}
	opts.ResourceIsPod = true
	return opts
}

// selector is checked by the strategies of workloads themselves.
func selector(is, was *metav1.LabelSelector) field.ErrorList {
	return apivalidation.ValidateImmutableField(is, was, field.NewPath("spec", "selector"))
}

var scalerOptions = autoscalingvalidation.HorizontalPodAutoscalerSpecValidationOptions{MinReplicasLowerBound: 1}

func jobOptions(o, old *batch.Job) batchvalidation.JobValidationOptions {
	opts := batchvalidation.JobValidationOptions{RequirePrefixedLabels: true}
	if old == nil {
		opts.PodValidationOptions = template(&o.Spec.Template, nil)
		return opts
	}
	opts.PodValidationOptions = template(&o.Spec.Template, &old.Spec.Template)
	opts.AllowInvalidLabelValueInSelector = opts.AllowInvalidLabelValueInSelector || metavalidation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector)
	suspended := old.Spec.Suspend != nil && *old.Spec.Suspend
	opts.AllowMutableSchedulingDirectives, opts.AllowMutablePodResources = suspended, suspended
	return opts
}

// selected sets the labels by which a Job finds its pods.
func selected(object runtime.Object) {
	o := object.(*batch.Job)
	if o.Spec.ManualSelector != nil && *o.Spec.ManualSelector {
		return
	}
	set := func(labels map[string]string, key, value string) map[string]string {
		if labels == nil {
			labels = map[string]string{}
		}
		if _, found := labels[key]; !found {
			labels[key] = value
		}
		return labels
	}
	for _, key := range []string{batch.LegacyJobNameLabel, batch.JobNameLabel} {
		o.Spec.Template.Labels = set(o.Spec.Template.Labels, key, o.Name)
	}
	for _, key := range []string{batch.LegacyControllerUidLabel, batch.ControllerUidLabel} {
		o.Spec.Template.Labels = set(o.Spec.Template.Labels, key, string(o.UID))
	}
	if o.Spec.Selector == nil {
		o.Spec.Selector = &metav1.LabelSelector{}
	}
	o.Spec.Selector.MatchLabels = set(o.Spec.Selector.MatchLabels, batch.ControllerUidLabel, string(o.UID))
}

// addresses sets the list of addresses of a Service from its first one, as its storage does.
func addresses(object runtime.Object) {
	o := object.(*core.Service)
	if o.Spec.ClusterIP != "" && len(o.Spec.ClusterIPs) == 0 {
		o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
	}
}

// allocated sets the address that a stored Service has, which its update keeps unless it has another.
func allocated(object, stored runtime.Object) {
	o, old := object.(*core.Service), stored.(*core.Service)
	if old.Spec.Type == core.ServiceTypeExternalName {
		return
	}
	if old.Spec.ClusterIP == "" {
		old.Spec.ClusterIP, old.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"}
	}
	if o.Spec.ClusterIP == "" && o.Spec.Type != core.ServiceTypeExternalName {
		o.Spec.ClusterIP, o.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	}
}

// bound makes a stored claim a bound one.
func bound(object, stored runtime.Object) {
	old := stored.(*core.PersistentVolumeClaim)
	old.Status.Phase, old.Status.Capacity = core.ClaimBound, old.Spec.Resources.Requests
	object.(*core.PersistentVolumeClaim).Status = old.Status
}

// generation counts the templates of a DaemonSet.
func generation(object, stored runtime.Object) {
	o, old := object.(*apps.DaemonSet), stored.(*apps.DaemonSet)
	o.Spec.TemplateGeneration = old.Spec.TemplateGeneration
	if !apiequality.Semantic.DeepEqual(o.Spec.Template, old.Spec.Template) {
		o.Spec.TemplateGeneration++
	}
}

// message says what is wrong, without what would fill the screen, and without the values of Secrets.
func message(of runtime.Object, err *field.Error) string {
	_, secret := of.(*core.Secret)
	detail, _, _ := strings.Cut(err.Detail, "\n") // a comparison follows
	value := reflect.ValueOf(err.BadValue)
	for value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	switch value.Kind() {
	case reflect.Slice, reflect.Map, reflect.Struct, reflect.Invalid:
	default:
		if !secret {
			return (&field.Error{Type: err.Type, BadValue: err.BadValue, Detail: detail}).ErrorBody()
		}
	}
	if detail == "" {
		return err.Type.String()
	}
	return fmt.Sprintf("%s: %s", err.Type, detail)
}
