module github.com/caisson-dev/caisson/guest-sdk

go 1.26.0

require (
	github.com/caisson-dev/caisson/abi v0.0.0
	github.com/extism/go-pdk v1.1.3
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/caisson-dev/caisson/abi => ../abi
