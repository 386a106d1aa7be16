{{- define "name" }}z{{ end -}}
