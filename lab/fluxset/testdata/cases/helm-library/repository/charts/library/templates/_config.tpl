{{- define "library.config" -}}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  from: library
{{- end }}
