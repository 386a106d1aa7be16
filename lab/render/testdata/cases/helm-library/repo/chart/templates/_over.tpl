{{- define "shop.over" -}}
data: {color: green}
{{- end -}}
{{- define "shop.base" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: merged
  labels:
    {{- include "lib.labels" . | nindent 4 }}
data: {color: red, size: "1"}
{{- end -}}
