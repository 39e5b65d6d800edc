package main

import "wopcert/cmd/internal/certify"

// Version is the version of the program, which bundles carry as suite.version.
const Version = certify.SuiteVersion
