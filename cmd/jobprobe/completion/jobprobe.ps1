# jobprobe completion for PowerShell: jobprobe completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName jobprobe, jobprobe.exe -ScriptBlock {
    param($word, $line, $cursor)
    $name = $line.CommandElements[0].ToString()
    $before = @($line.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursor } | ForEach-Object { $_.ToString() })
    $found = @(& $name complete powershell "--word=$word" -- @before 2>$null)
    if ($found.Count -gt 0 -and $found[0] -in ':file', ':dir') {
        $flag = ''
        if ($word -match '^--[^=]*=') { $flag = $Matches[0] }
        Get-ChildItem -Path ($word.Substring($flag.Length) + '*') -Directory:($found[0] -eq ':dir') |
            ForEach-Object { $flag + (Resolve-Path -Relative $_.FullName) } |
            ForEach-Object { [System.Management.Automation.CompletionResult]::new($_, $_, 'ProviderItem', $_) }
        return
    }
    foreach ($text in $found) {
        $value, $about = $text -split "`t", 2
        if (-not $about) { $about = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $about)
    }
}
