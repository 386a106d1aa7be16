{new(name):: {apiVersion: 'v1', kind: 'Secret', metadata: {name: name}}}
