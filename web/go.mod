module flashsale.internal/web

go 1.26.0

// Packages of npm may hold Go files.
ignore ./node_modules
