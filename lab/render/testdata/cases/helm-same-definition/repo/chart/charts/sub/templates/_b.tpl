{{- define "name" }}sub{{ end -}}
