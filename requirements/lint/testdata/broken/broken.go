package broken

import "wopcert/requirements"

var id int = requirements.R0170RunCancel
