-- What follows takes all that there is to say, which came as one text.
local ARGV, text = {}, ARGV[#ARGV]
for word in string.gmatch(text, '([^|]*)|') do ARGV[#ARGV + 1] = word end
