{{- /* Labels of one object. Takes a dict: context, component ("" for what belongs to all), values (of the component). */ -}}
{{- define "flux.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .context.Release.Namespace }}
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
app.kubernetes.io/part-of: flux
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
control-plane: controller
{{- end }}
{{- with .values }}
{{- with .labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "flux.podLabels" -}}
app: {{ .component }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: flux
{{- with .values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "flux.crdAnnotations" -}}
{{ toYaml (merge (dict) .values.crds.annotations .own) }}
{{- end -}}
